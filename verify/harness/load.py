"""Running `strowger load` as SIPp is run, and reading its report."""
import csv
import json
import os
import time

from . import folder, net
from .servers import Process
from .sipp import SCENARIOS


class Load:
    """One generator process. It calls from port + 1 of `ip` and answers at `port`, if it has a callee. `scenario` is a
    file of verify/sipp, or `-sn NAME` of a built-in one. Without `wait` it starts beside others; `started` waits for it."""

    def __init__(self, binary, scenario, remote=None, callee=None, ip=None, port=5060, rate=None, calls=None, rows=None,
                 cpu=None, keys=(), workers=1, extra=(), prefix=(), wait=True):
        self.dir = folder.temporary('strowger-load-')
        self.ip, self.port = ip or net.fresh_ip(), port
        self.json, self.csv = os.path.join(self.dir, 'report.json'), os.path.join(self.dir, 'series.csv')
        path = lambda name: name if os.path.isabs(name) else os.path.join(SCENARIOS, name)
        # In a network namespace, perhaps.
        cmd = list(prefix) + (['taskset', '-c', str(cpu)] if cpu is not None else [])
        cmd += [binary, 'load'] + (['%s:%d' % remote] if remote else [])
        cmd += scenario.split(' ') if scenario.startswith('-sn ') else ['-sf', path(scenario)]
        if callee:
            cmd += ['--answer', path(callee)]
        # A generator that shares its machine is late now and then; what it cost is what is asked here.
        cmd += ['-i', self.ip, '-p', str(port), '--workers', str(workers), '--quiet', '--lateness', '1000',
                '--json', self.json, '--csv', self.csv]
        if rate:
            cmd += ['-r', str(rate)]
        if calls:
            cmd += ['-m', str(calls)]
        if rows is not None:
            path = os.path.join(self.dir, 'rows.csv')
            with open(path, 'w') as f:
                f.write('SEQUENTIAL\n' + ''.join(';'.join(r) + '\n' for r in rows))
            cmd += ['-inf', path]
        for k, v in keys:
            cmd += ['-key', k, v]
        self.process = Process(cmd + list(extra), cwd=self.dir)
        self.begun = None
        if wait:
            self.started()

    def started(self):
        """Waits until it is ready."""
        try:
            net.poll('the generator is ready', 60, lambda: self.process.said('ready:') or not self.process.running())
        except BaseException:
            # It has a session of its own, so an interruption does not reach it.
            self.process.stop()
            raise
        self.begun = self.process.said_at('ready:')
        if not self.process.running() and not os.path.exists(self.json):
            raise AssertionError('the generator did not start:\n' + self.process.log())

    def wait(self, seconds):
        """Its exit status, or None when it had to be ended."""
        try:
            self.process.proc.wait(seconds)
            return self.process.proc.returncode
        except Exception:
            self.process.stop()
            return None

    def stop(self):
        self.process.stop()

    def report(self):
        with open(self.json) as f:
            return json.load(f)

    def totals(self):
        """Calls created, successful, failed, and messages it had to send again."""
        report = self.report()
        caller = {m['key']: m['value'] or 0 for m in report['metrics']}
        ended = lambda how: report['measured'].get('calls.' + how, 0)
        return {'created': int(caller.get('calls.begun', 0)), 'ok': ended('succeeded') + ended('cancelled'),
                'failed': int(caller.get('calls.failed', 0)), 'retransmissions': int(caller.get('retransmissions', 0))}

    def done_at(self, when):
        """Successful calls at this time (seconds since the epoch), interpolated between seconds."""
        return self.summed(when, 'succeeded_per_s')

    def messages(self, since, until):
        """Messages sent and received between these times: what the server between both ends had."""
        return sum(self.summed(until, column) - self.summed(since, column) for column in ('sent_per_s', 'received_per_s'))

    def summed(self, when, column):
        """A column of the series up to this time."""
        with open(self.csv, newline='') as f:
            rows = [(float(r['time_s']), float(r[column])) for r in csv.DictReader(f)]
        done, since = 0.0, when - self.begun
        for (at, rate), following in zip(rows, [r[0] for r in rows[1:]] + [float('inf')]):
            done += rate * max(0.0, min(since, following) - at) if since > at else 0
        return done

    def latency(self, key):
        """One latency from the actual start, microseconds: the report's entry."""
        return next(l['sent'] for l in self.report()['latencies'] if l['key'] == key)

    def errors(self, last=5):
        return self.process.log(last)
