#!/usr/bin/env python3
"""Ten million users registered in one server: what each takes, and whether it stands still while they come, stay and go.

    verify/bench/registered.py --bin target/release/strowger [--users 10000000] [--rate 30000] [--record lab/record]

`strowger serve` with one worker and its store on CPU 0, the users (`strowger load`, verify/sipp/register_plain.xml, without
digest: what is asked is the location table with all that surrounds it) on CPU 1. First a few guests register at that rate
for as long as a transaction is remembered, so that what transactions take is not counted as the users'. Then all users
register, then each refreshes its registration, and then none of them is heard of any more, so that all expire as fast as
they came; guests go on meanwhile, for whoever asks must not notice.

Every --every seconds two seconds are captured (transit.py): how long the server had each REGISTER, from its socket back to
it, the wait behind others included, and its own time for each, which is what is left without that wait: from when the
request was there and the answer before had gone. So what keeps the worker for a while counts once, for whoever was first,
and in the other figure for all behind him. Processor time is read every second: that of the worker, which expires what is
due between messages, and that of all threads, the store's writers included. Bytes a user are the table's own count, and what the process's memory
grew by between the guests' end and the last refresh.

It is kept if no registration failed, all were there and all went, a user takes at most 200 bytes by the table's count and
260 by memory, and the server's own time for 99.99 % of registrations was within a millisecond.
"""
import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'interop'))

import records  # noqa: E402  (after the path is set)
import transit  # noqa: E402
import verdicts  # noqa: E402
from harness import load, net, servers  # noqa: E402

DOMAIN = 'bench.test'
GUESTS, GUEST_RATE = 10000, 2000
# The pass before all others, of which nothing is judged.
WARM_UP = 'guests'
# Seconds: what is remembered of a transaction (RFC 3261 timer J) and some; between the end of a pass over all users and the
# end of the first registration of it; at the end, for what is due to be gone.
REMEMBERED, SPARE, AFTER = 40, 60, 20
PERCENTILES = (50, 99, 99.99)


def cpu_ns(pids):
    """Nanoseconds on a CPU of every thread of these processes so far."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir('/proc/%d/task' % pid):
                with open('/proc/%d/task/%s/schedstat' % (pid, task)) as f:
                    total += int(f.read().split()[0])
        except OSError:
            continue
    return total


class Samples(threading.Thread):
    """Processor time of each second: of the worker, and of all threads, per cent of a core."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.ending, self.rows = pids, threading.Event(), []
        self.begun = time.monotonic()

    def worker_ns(self):
        total = 0
        for pid in self.pids:
            for task in os.listdir('/proc/%d/task' % pid):
                base = '/proc/%d/task/%s/' % (pid, task)
                with open(base + 'comm') as name:
                    if name.read().startswith('worker-'):
                        with open(base + 'schedstat') as f:
                            total += int(f.read().split()[0])
        return total

    def run(self):
        last = None
        while not self.ending.wait(1.0 - (time.monotonic() - self.begun) % 1.0):
            now = time.monotonic() - self.begun, self.worker_ns(), cpu_ns(self.pids)
            if last:
                self.rows.append((now[0],) + tuple((b - a) / (now[0] - last[0]) / 1e7 for a, b in zip(last[1:], now[1:])))
            last = now


class Registered:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-registered-')
        self.phases = []

    def users(self, server, capture, name, count, calls, rate, expires):
        """A pass of registrations, some windows of it captured. Whether any failed."""
        ip, path = net.fresh_ip(), os.path.join(self.dir, '%s.csv' % name)
        with open(path, 'w') as f:
            # The same names in each pass, but for the guests'.
            f.write('SEQUENTIAL,PRINTF=%d\n%s%%08d;\n' % (count, 'g' if name.startswith('guests') else 'u'))
        calls_made = load.Load(self.o.bin, 'register_plain.xml', server.address, ip=ip, cpu=1, rate=rate, calls=calls,
                               extra=['-inf', path, '--ladders', '0', '--grain', '0.2'],
                               keys=[('domain', DOMAIN), ('expires', str(expires)), ('callee_ip', self.contact)])
        begun, windows = time.monotonic(), []
        try:
            while calls_made.process.running():
                windows += self.window(capture, calls_made, begun + calls / rate)
            status = calls_made.wait(60)
        finally:
            calls_made.stop()
        sums = calls_made.totals()
        print('%s: %d registrations, %d failed, %d messages repeated' % (
            name, sums['ok'], sums['failed'], sums['retransmissions']), flush=True)
        if name != WARM_UP:
            self.phases.append(dict(name=name, windows=windows, end=time.monotonic(), begun=begun, **sums))
        return status is None or sums['failed'] or sums['ok'] != calls

    def window(self, capture, generator, end):
        """Waits until it is time, and captures. Nothing near the end, where there is less and less to see."""
        until = time.monotonic() + self.o.every
        while time.monotonic() < until:
            if not generator.process.running():
                return []
            time.sleep(0.2)
        if not capture or time.monotonic() > end - 5:
            return []
        capture.start()
        time.sleep(2)
        return [capture.stop()]

    def capture(self, server):
        if transit.missing():
            return contextlib.nullcontext()
        return transit.Capture(server.address, self.dir, transit.SUCCESS, transit.REGISTER)

    def run(self):
        o, wrong = self.o, []
        self.contact = net.fresh_ip()
        passes = o.users / o.rate
        expires = max(60, int(passes + SPARE))
        with servers.Strowger(o.bin, DOMAIN, 1, False, cpu=0) as server, self.capture(server) as capture:
            pids = server.process.pids()
            samples = Samples(pids)
            samples.start()
            try:
                wrong += ['guests'] * bool(self.users(server, capture, WARM_UP, GUESTS, REMEMBERED * o.rate, o.rate, 7200))
                guests = server.metric('strowger_registered_users')
                before = records.memory_kb(pids)
                for name in ('register', 'refresh'):
                    wrong += [name] * bool(self.users(server, capture, name, o.users, o.users, o.rate, expires))
                here, table = (server.metric('strowger_' + m) for m in ('registered_users', 'location_bytes'))
                memory = records.memory_kb(pids)
                # From the first that is due to the last.
                seconds = int(expires + AFTER)
                wrong += ['guests meanwhile'] * bool(
                    self.users(server, capture, 'guests, users expire', GUESTS, GUEST_RATE * seconds, GUEST_RATE, 7200))
                left = server.metric('strowger_registered_users')
            finally:
                samples.ending.set()
                samples.join()
            wrong = ['of %s some failed' % name for name in wrong]
            if here != guests + o.users:
                wrong.append('of %d users %d were registered' % (o.users, here - guests))
            if left != guests:
                wrong.append('%d users were left of those that expired' % (left - guests))
            return self.found(samples, table / here, (memory - before) * 1024 / o.users), wrong, samples

    def found(self, samples, counted, resident):
        found = dict(users=self.o.users, bytes_counted=counted, bytes_resident=resident, phases=[])
        for phase in self.phases:
            times = sorted(t for w in phase['windows'] for t in w.added())
            turns = sorted(t for w in phase['windows'] for t in w.own())
            inside = [r for r in samples.rows if phase['begun'] + 3 < samples.begun + r[0] < phase['end'] - 3]
            of = lambda at: (min(r[at] for r in inside), sorted(r[at] for r in inside)[len(inside) // 2],
                             max(r[at] for r in inside)) if inside else (0, 0, 0)
            at = lambda p, of: of[min(int(len(of) * p / 100), len(of) - 1)] if of else float('nan')
            found['phases'].append(dict(
                name=phase['name'], registrations=phase['ok'], failed=phase['failed'], captured=len(times),
                lost=sum(c.dropped() for c in phase['windows']), worker=of(1), all=of(2), longest=times[-1] if times else None,
                over_ms=sum(t > 1000 for t in times), own=at(99.99, turns), own_longest=turns[-1] if turns else None,
                **{'p%g' % p: at(p, times) for p in PERCENTILES}))
        return found


def table(found):
    lines = ['| | registrations | failed | held, us: p50 | p99 | p99.99 | longest | own time: p99.99 | longest | captured | '
             'worker, % of a core in a second: least / median / most | all threads |', '|---' * 12 + '|']
    whole = lambda value: '-' if value is None else '%.0f' % value
    spread = lambda values: ' / '.join('%.0f' % v for v in values)
    for p in found['phases']:
        lines.append('| %s | %d | %d | %.0f | %.0f | %.0f | %s | %.0f | %s | %d | %s | %s |' % (
            p['name'], p['registrations'], p['failed'], p['p50'], p['p99'], p['p99.99'],
            whole(p['longest']), p['own'], whole(p['own_longest']), p['captured'], spread(p['worker']), spread(p['all'])))
    return lines + ['', 'Bytes a user: %.1f by the table\'s own count, %.1f by memory.' % (
        found['bytes_counted'], found['bytes_resident'])]


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--users', type=int, default=10000000)
    p.add_argument('--rate', type=int, default=30000, help='registrations a second')
    p.add_argument('--every', type=float, default=20, metavar='SECONDS', help='between captures')
    p.add_argument('--record', help='a folder for table, figures and plot')
    p.add_argument('--judge', action='store_true', help='exit with 1 also if a goal is not reached, or not measured')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    # What this program itself does is done beside the users.
    os.sched_setaffinity(0, {1} if (os.cpu_count() or 1) > 1 else {0})
    if transit.missing():
        print('How long the server has each registration is not measured: %s.' % transit.missing())
    registered = Registered(o)
    try:
        found, wrong, samples = registered.run()
    finally:
        # Captures are gigabytes.
        shutil.rmtree(registered.dir, ignore_errors=True)
    lines = table(found)
    print('\n'.join(lines))
    if o.record:
        base = records.write(o.record, 'registered', '%d users registered in one server' % o.users, 1, lines, [found])
        records.plot(base + '.svg', 'seconds: guests, all register, all refresh, all expire', '% of a core in each second', [
            ('worker', [(r[0], r[1]) for r in samples.rows]), ('all threads', [(r[0], r[2]) for r in samples.rows])])
        with open(base + '.md', 'a') as f:
            f.write('\n![processor time of each second](%s.svg)\n' % os.path.basename(base))
    kept = verdicts.tell('the registered users', wrong + verdicts.registered(found))
    return 1 if wrong or (o.judge and not kept) else 0


if __name__ == '__main__':
    sys.exit(main())
