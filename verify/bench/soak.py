#!/usr/bin/env python3
"""Half an hour of everything at once: does memory stay flat, does any call fail?

    verify/bench/soak.py --bin target/release/strowger [--minutes 30] [--users 370000] [--record lab/record]

`strowger serve` with one worker on CPU 0. From CPU 1: users who register, call, give up and leave messages, all with
digest (`strowger load --users`, time compressed), and besides, others who register for a minute and are not heard of for
longer, so that bindings expire all the time. Every 30 s the configuration is read again (SIGHUP), and every 45 s the server
is stopped for 0.3 s (SIGSTOP, SIGCONT), shorter than a caller waits before it repeats itself. Its memory (Pss) and its
share of the core are read every 10 s. Begin with as many --users as take about 70 % of the core.

Good is: no call, registration or transaction failed, nothing was refused for an overload, the core was busy by 60 to 80 %, and the memory of the last third of the time is within 2 % of that
of the second third. The first third is for what is remembered of calls and for tables to come to their size.
"""
import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import bench  # noqa: E402  (after the path is set)
import records  # noqa: E402
from harness import load, net, servers  # noqa: E402

DOMAIN, FIRST = 'bench.test', 1000000
GUESTS = 20000
RELOAD, STALL, STALLED, SAMPLE = 30, 45, 0.3, 10
# So many lines of the server's log are kept.
WARNINGS = 60


class Disturbances(threading.Thread):
    """Reloads and stalls while it runs; samples of memory and processor time."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ending, self.samples = server, threading.Event(), []
        self.reloads = self.stalls = 0

    def tell(self, number):
        # The process itself: what runs it (taskset) has become it.
        os.kill(self.server.process.proc.pid, number)

    def run(self):
        began, last = time.time(), None
        pids = self.server.process.pids()
        at = dict(reload=RELOAD, stall=STALL, sample=0)
        while not self.ending.wait(0.25):
            now = time.time() - began
            if now >= at['reload']:
                at['reload'] += RELOAD
                self.reloads += 1
                self.tell(signal.SIGHUP)
            if now >= at['stall']:
                at['stall'] += STALL
                self.stalls += 1
                self.tell(signal.SIGSTOP)
                time.sleep(STALLED)
                self.tell(signal.SIGCONT)
            if now >= at['sample']:
                at['sample'] += SAMPLE
                spent = bench.cpu_ns(pids)
                share = (spent - last[1]) / (now - last[0]) / 1e7 if last else 0.0
                last = (now, spent)
                self.samples.append((now, records.memory_kb(pids) / 1024, share))


class Disk(threading.Thread):
    """How long the disk takes for a little of somebody else: registrations are refused while it does not answer for 2 s."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.path, self.ending, self.longest = os.path.join(folder, 'beside'), threading.Event(), 0.0
        self.began = self.error = None

    def run(self):
        try:
            with open(self.path, 'wb', buffering=0) as f:
                while not self.ending.wait(0.5):
                    self.began = time.monotonic()
                    f.seek(0)
                    f.write(bytes(4096))
                    os.fsync(f.fileno())
                    self.longest, self.began = self.took(), None
        except OSError as error:
            self.longest, self.began, self.error = self.took(), None, str(error)

    def took(self):
        """The longest so far, a write under way included."""
        began = self.began
        return self.longest if began is None else max(self.longest, time.monotonic() - began)


class Soak:
    def __init__(self, options):
        self.o = options
        self.seconds = int(options.minutes * 60)
        self.box = '%s:5090' % net.fresh_ip()

    def server(self):
        users = [('u%d' % (FIRST + i), 'p%d' % (FIRST + i)) for i in range(self.o.users + GUESTS)]
        config = '[voicemail]\ntarget = "sip:voicemail@%s"\non = ["busy"]\n' % self.box
        return servers.Strowger(self.o.bin, DOMAIN, 1, True, config=config, users=users, cpu=0)

    def population(self, server, report):
        o = self.o
        cmd = ['taskset', '-c', '1', o.bin, 'load', '--users', str(o.users), '--domain', DOMAIN, '--compress', str(o.compress),
               '--workers', '1', '--measure', '%ds' % self.seconds, '--mailbox', self.box, '-i', net.fresh_ip(), '--json', report,
               # What is asked is the server; that the machine was busy is in the report.
               '--lateness', '1000', '--quiet', '%s:%d' % server.address]
        return servers.Process(cmd)

    def guests(self, server):
        """Users whom nobody calls, who register for a minute and are not heard of until it is their turn again."""
        ip = net.fresh_ip()
        rows = [('u%d' % (FIRST + i), '[authentication username=u%d password=p%d]' % (FIRST + i, FIRST + i))
                for i in range(self.o.users, self.o.users + GUESTS)]
        return load.Load(self.o.bin, 'register_once.xml', server.address, ip=ip, rate=self.o.guests, rows=rows, cpu=1,
                         calls=int(self.o.guests * self.seconds), extra=['--ladders', '0'],
                         keys=[('domain', DOMAIN), ('expires', '60')])

    def run(self):
        with tempfile.TemporaryDirectory() as scratch, self.server() as server:
            report = os.path.join(scratch, 'users.json')
            main = self.population(server, report)
            disturbances, disk = Disturbances(server), Disk(scratch)
            guests = self.guests(server)
            disturbances.start()
            disk.start()
            try:
                main.proc.wait(self.seconds + 1200)
                guests.wait(120)
                refused = sum(server.metric('strowger_overload_refused_total{how="%s"}' % how)
                              for how in ('answered', 'unanswered'))
            finally:
                disturbances.ending.set()
                disk.ending.set()
                disturbances.join()
                disk.join(10)
                main.stop()
                guests.stop()
            if not os.path.exists(report):
                raise AssertionError('the users did not end:\n' + '\n'.join([main.log()] + warnings(server)))
            with open(report) as f:
                found, wrong, samples = self.judge(json.load(f), guests.totals(), disturbances, refused)
            found['longest_write_of_another_s'] = disk.took()
            if disk.error:
                wrong.append('the disk could not be watched: ' + disk.error)
            return found, wrong, samples, warnings(server)

    def judge(self, report, guests, disturbances, refused):
        """All figures, and what is wrong with them."""
        value = {m['key']: m['value'] for m in report['metrics']}
        samples = disturbances.samples
        end = samples[-1][0]
        third = lambda n: [s for s in samples if n * end / 3 <= s[0] < (n + 1) * end / 3 + 1]
        memory = [statistics.median(s[1] for s in third(n)) for n in range(3)]
        found = dict(minutes=end / 60, calls_failed=value['calls.failed'], calls_success=value['calls.success'],
                     registrations_success=value['registrations.success'], guests=guests['created'],
                     guests_failed=guests['failed'], share_of_core=statistics.median(s[2] for s in third(1)),
                     memory_mib=memory[2], memory_growth=100 * (memory[2] / memory[1] - 1),
                     refused=refused, reloads=disturbances.reloads, stalls=disturbances.stalls)
        wrong = []
        if value['calls.failed'] or value['registrations.success'] < 100 or guests['failed']:
            wrong.append('calls or registrations failed')
        if refused:
            wrong.append('%d requests were refused for an overload' % refused)
        if not 60 <= found['share_of_core'] <= 80:
            wrong.append('the core was busy by %.0f %%, not by 60 to 80' % found['share_of_core'])
        if min(found['reloads'] * RELOAD, found['stalls'] * STALL) < 0.8 * end - max(RELOAD, STALL):
            wrong.append('the disturbances ended before the time was over')
        if abs(found['memory_growth']) > 2:
            wrong.append('memory moved by %.1f %% in the last third' % found['memory_growth'])
        return found, wrong, samples


def warnings(server):
    """What the server's log says that somebody should know, and when it was over."""
    told = (' WARN ', ' ERROR ', 'written to disk again', 'overload is over')
    lines = [line.replace(server.dir, 'DIR')[:300] for line in server.process.lines if any(word in line for word in told)]
    more = len(lines) - WARNINGS
    return lines if more <= 0 else lines[:WARNINGS] + ['and %d more' % more]


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--minutes', type=float, default=30)
    p.add_argument('--users', type=int, default=370000)
    p.add_argument('--compress', type=float, default=60)
    p.add_argument('--guests', type=int, default=50, help='registrations for a minute, a second')
    p.add_argument('--record', help='a folder for table, figures and plot')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    found, wrong, samples, said = Soak(o).run()
    table = ['| | |', '|---|---|'] + ['| %s | %.6g |' % pair for pair in found.items()]
    table += ['', 'Good.' if not wrong else 'NOT GOOD: ' + '; '.join(wrong)]
    if said:
        table += ['', 'The server warned:', '', '```', *said, '```']
    print('\n'.join(table))
    if o.record:
        base = records.write(o.record, 'soak', 'Everything at once for %g minutes' % o.minutes, 1, table, [found])
        records.plot(base + '.svg', 'seconds', 'MiB, per cent', [('memory, MiB', [(s[0], s[1]) for s in samples]),
                                                                 ('share of the core, %', [(s[0], s[2]) for s in samples])])
        with open(base + '.md', 'a') as f:
            f.write('\n![memory and processor time](%s.svg)\n' % os.path.basename(base))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
