"""Running SIPp and reading its counters."""
import csv
import glob
import os
import re
import socket
import subprocess
import time

from . import folder, net
from .servers import Process

SCENARIOS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'sipp')


def moment(row):
    """The time of a line of statistics, seconds since the epoch."""
    return float(row['CurrentTime'].split('\t')[-1])


def free_port(ip):
    with socket.socket(socket.AF_INET6 if ':' in ip else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((ip.strip('[]'), 0))
        return s.getsockname()[1]


class Sipp:
    """One SIPp process. `scenario` is a file of verify/sipp, or `-sn NAME` of a built-in one."""

    def __init__(self, scenario, remote=None, ip=None, port=5060, rate=None, calls=None, limit=None, rows=None,
                 transport='u1', seconds=None, extra=(), cpu=None, keys=()):
        self.dir = folder.temporary('strowger-sipp-')
        self.ip, self.port = ip or net.fresh_ip(), port
        # Its control port is one of IPv4 in any case.
        control = net.fresh_ip() if ':' in self.ip else self.ip
        self.stat_file = os.path.join(self.dir, 'stat.csv')
        cmd = ['taskset', '-c', str(cpu)] if cpu is not None else []
        cmd += ['sipp'] + (['%s:%d' % remote] if remote else [])
        cmd += ['-sn', scenario[4:]] if scenario.startswith('-sn ') else \
            ['-sf', scenario if os.path.isabs(scenario) else os.path.join(SCENARIOS, scenario)]
        cmd += ['-i', self.ip, '-p', str(port), '-t', transport, '-nostdin', '-ci', control,
                '-cp', str(free_port(control)), '-mi', self.ip, '-trace_stat', '-stf', self.stat_file, '-fd', '1', '-trace_counts',
                '-trace_err', '-error_file', os.path.join(self.dir, 'errors.log'),
                '-buff_size', str(4 << 20), '-timer_resol', '1']
        if rate:
            cmd += ['-r', str(rate), '-rp', '1000']
        if calls:
            cmd += ['-m', str(calls)]
        if limit:
            cmd += ['-l', str(limit)]
        if seconds:
            cmd += ['-timeout', '%ds' % seconds]
        if rows is not None:
            path = os.path.join(self.dir, 'rows.csv')
            with open(path, 'w') as f:
                f.write('SEQUENTIAL\n' + ''.join(';'.join(r) + '\n' for r in rows))
            cmd += ['-inf', path]
        for k, v in keys:
            cmd += ['-key', k, v]
        self.process = Process(cmd + list(extra), cwd=self.dir)

    def wait(self, seconds):
        """Its exit status, or None when it had to be ended."""
        try:
            self.process.proc.wait(seconds)
            time.sleep(0.1)
            return self.process.proc.returncode
        except subprocess.TimeoutExpired:
            self.process.stop()
            return None

    def stop(self):
        self.process.stop()

    def rows(self):
        """The statistics lines so far, as dictionaries."""
        try:
            with open(self.stat_file, newline='') as f:
                return [r for r in csv.DictReader(f, delimiter=';') if r.get('SuccessfulCall(C)')]
        except OSError:
            return []

    def totals(self):
        """Calls created, successful, failed, and messages it had to send again."""
        rows = self.rows()
        last = rows[-1] if rows else {}
        number = lambda name: int(last.get(name) or 0)
        return {'created': number('TotalCallCreated'), 'ok': number('SuccessfulCall(C)'),
                'failed': number('FailedCall(C)'), 'retransmissions': number('Retransmissions(C)')}

    def done_at(self, when):
        """Successful calls at this time (seconds since the epoch), interpolated between lines."""
        return self.between([(moment(r), int(r['SuccessfulCall(C)'])) for r in self.rows()], when)

    def messages(self, since, until):
        """Messages sent and received between these times, those repeated among them."""
        names = glob.glob(os.path.join(self.dir, '*_counts.csv'))
        with open(names[0], newline='') as f:
            rows = list(csv.DictReader(f, delimiter=';'))
        counted = lambda r: sum(int(n) for name, n in r.items() if name and name.endswith(('_Sent', '_Recv', '_Retrans')))
        points = [(moment(r), counted(r)) for r in rows]
        return self.between(points, until) - self.between(points, since)

    def between(self, points, when):
        """What a figure was at a time, interpolated between (time, figure)."""
        for (t0, n0), (t1, n1) in zip(points, points[1:]):
            if t0 <= when <= t1 and t1 > t0:
                return n0 + (n1 - n0) * (when - t0) / (t1 - t0)
        raise AssertionError("SIPp has no statistics around that time: " + self.process.log(5) + self.errors(1))

    def given_up(self):
        """The Call-IDs of calls that it ended by itself. As a callee it does so where an INVITE or an ACK comes again
        that it answered too late for its peer's timers (RFC 3261 17.1.1.2), which no user agent may."""
        return set(re.findall(r"Aborting call on [^:']*'([^'\n]+)'", self.log()))

    def log(self):
        """What it wrote of errors."""
        try:
            with open(os.path.join(self.dir, 'errors.log'), errors='replace') as f:
                return f.read()
        except OSError:
            return ''

    def errors(self, last=5):
        return ''.join(self.log().splitlines(keepends=True)[:last * 12])
