#!/usr/bin/env python3
"""What a server does with more calls than it can carry: goodput, setup time and refusals from half to ten times of it.

    verify/bench/overload.py --bin target/release/strowger [--servers strowger,kamailio] [--transports udp,tcp]

The server has one worker (Kamailio one process for each transport) on CPU 0 and a stated share of it (--quota), so
that the generator, `strowger load` on CPU 1, can offer ten times of what it carries. The share is a CPU quota of a
control group (cpu.max, or cpu.cfs_quota_us in version 1); where no group can be made, the server is stopped and
continued by signals (SIGSTOP, SIGCONT). The output says which.

Capacity is found first, by the highest goodput of some short runs. Then Proxy-200 calls (callees registered, 20 ms of ringing,
no credentials) are offered at multiples of it, evenly, whatever the server says; callers repeat their INVITEs as RFC
3261 says, and do not come back after a refusal. Over TCP all calls share one connection, as those of a trunk do. What the server reads too slowly waits with the caller, who
sends no INVITE while 64 kB wait: these are "held back", calls that failed. Each point lasts --seconds after --warm-up; goodput is calls that came
to their end in that window, a second. Setup is INVITE to 200 of the calls answered that began in that window, counted
from the first INVITE. The time ends when the last call begins: what waits then is not waited for.

What the same share of a virtual machine carries changes by a third within a minute or two, with what else its host does. So
between any two points the first server is measured at 1.5 times, and a point is compared with the mean of the two measurements
around it: "carried". The highest point of those with more offered than carried, in parts of that, is the peak; possible is the
peak at the time of a point, or what was offered where that is less. (For other servers possible is their highest point.) With --reps
each point is measured so often, the servers in turns. Good is, for the first server: goodput at each point at least 90 % of the
possible and setup p99 under 500 ms, by the medians; what is not is said, and the exit status is 1.
"""
import argparse
import csv
import glob
import html
import os
import signal
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import records  # noqa: E402  (after the path is set)
from harness import load, net, servers  # noqa: E402

DOMAIN = 'bench.test'
CALLEES = 1000
CALLERS = 50000
# What points are compared with: an overload, but not a large one.
REFERENCE = 1.5
FIELDS = ('server', 'transport', 'times', 'rep', 'offered', 'goodput', 'before', 'after', 'carried', 'of_possible', 'setup_p50_ms', 'setup_p99_ms', 'refused', 'silent', 'held_back', 'steal')


def user(i):
    return 'b%d' % (1000000 + i)


# ---------------------------------------------------------------- the share of the CPU
class Group:
    """A control group with a quota, of either version."""

    def __init__(self, share, period):
        # The kernel takes no quota below a millisecond.
        self.share, self.period = share, max(period, int(1000 / share) + 1)
        self.path = None

    def make(self):
        for root, version in (('/sys/fs/cgroup', 2), ('/sys/fs/cgroup/cpu', 1)):
            probe = 'cgroup.controllers' if version == 2 else 'cpu.cfs_quota_us'
            if not os.path.exists(os.path.join(root, probe)):
                continue
            path = os.path.join(root, 'strowger-overload-%d' % os.getpid())
            try:
                os.mkdir(path)
                self.path = path
                quota = int(self.period * self.share)
                if version == 2:
                    self.write('cpu.max', '%d %d' % (quota, self.period))
                else:
                    self.write('cpu.cfs_period_us', str(self.period))
                    self.write('cpu.cfs_quota_us', str(quota))
                return 'cgroup v%d, %d us of every %d us' % (version, quota, self.period)
            except OSError:
                self.remove()
        return None

    def write(self, name, text):
        with open(os.path.join(self.path, name), 'w') as f:
            f.write(text)

    def take(self, pids):
        for pid in pids:
            self.write('cgroup.procs', str(pid))

    def release(self):
        pass

    def remove(self):
        if self.path:
            try:
                os.rmdir(self.path)
            except OSError:
                pass
        self.path = None


class Stopper:
    """Stops and continues the server by signals, so many microseconds of each period."""

    def __init__(self, share, period):
        self.share, self.period = share, period
        self.ending = threading.Event()

    def make(self):
        return 'SIGSTOP and SIGCONT, %d us of every %d us' % (self.period * self.share, self.period)

    def take(self, pids):
        self.ending.clear()
        self.thread = threading.Thread(target=self.run, args=(list(pids),))
        self.thread.start()

    def run(self, pids):
        def tell(number):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        while not self.ending.is_set():
            tell(signal.SIGCONT)
            time.sleep(self.period * self.share / 1e6)
            tell(signal.SIGSTOP)
            time.sleep(self.period * (1 - self.share) / 1e6)
        tell(signal.SIGCONT)

    def release(self):
        self.ending.set()
        self.thread.join()

    def remove(self):
        pass


# ---------------------------------------------------------------- one run
class Bench:
    def __init__(self, options):
        self.o = options
        self.results = []

    def server(self, name, transport):
        if name == 'kamailio':
            defines = ['PROXY', 'USERS 0'] + (['WITH_TCP'] if transport == 'tcp' else [])
            return servers.Kamailio(os.path.join(os.path.dirname(os.path.dirname(HERE)), 'lab', 'kamailio.cfg'), defines, memory=1024,
                                    extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=0, tcp=transport == 'tcp')
        config = '[auth]\nchallenge = []\n' + ('[overload]\nenabled = false\n' if name == 'strowger-off' else '')
        return servers.Strowger(self.o.server_bin, DOMAIN, 1, False, config=config, cpu=0)

    def measure(self, name, transport, rate, seconds):
        """One run at this rate: a row without what is known later."""
        callee = net.fresh_ip()
        server = self.server(name, transport)
        share = Group(self.o.quota, self.o.period) if not self.o.signals else Stopper(self.o.quota, self.o.period)
        how = share.make()
        if how is None:
            share = Stopper(self.o.quota, self.o.period)
            how = share.make()
        self.how = how
        length = self.o.warm_up + seconds
        with server:
            port = '5060' + (';transport=tcp' if transport == 'tcp' else '')
            net.register_block(server.address, [user(i) for i in range(CALLEES)], callee, port, DOMAIN)
            self.settle(server.process.pids())
            share.take(server.process.pids())
            try:
                rows = [(user(i % CALLEES), user(CALLEES + i)) for i in range(CALLERS)]
                extra = ['--warm-up', str(self.o.warm_up), '--timeout', '%gs' % length]
                extra += ['-t', 't1'] if transport == 'tcp' else []
                generator = load.Load(self.o.bin, 'overload_caller.xml', server.address, callee='callee.xml', ip=callee,
                                      rate=int(rate), rows=rows, cpu=1, keys=[('domain', DOMAIN)], extra=extra)
                time.sleep(max(0.0, generator.begun + length - time.time()))
                refusals = self.refusals(name, server)
                # Calls that are still waiting would wait for half a minute.
                generator.stop()
            finally:
                share.release()
        share.remove()
        return dict(self.row(generator), server=name, transport=transport, offered=rate, **refusals)

    def settle(self, pids):
        """Waits until the kernel has checked Strowger's programs: a fifth of a second of work, of which a small share
        of the CPU would make seconds at the beginning of each point."""
        def threads():
            for path in (p for pid in pids for p in glob.glob('/proc/%d/task/*/comm' % pid)):
                try:
                    with open(path) as f:
                        yield f.read().strip()
                except OSError:
                    pass
        end = time.monotonic() + 20
        while 'steering' in threads():
            if time.monotonic() > end:
                raise SystemExit('the kernel still checks the programs of the server after 20 s')
            time.sleep(0.02)

    def refusals(self, name, server):
        if not name.startswith('strowger'):
            return dict(refused='', silent='')
        count = lambda how: server.metric('strowger_overload_refused_total{how="%s"}' % how)
        return dict(refused=int(count('answered')), silent=int(count('unanswered')))

    def row(self, generator):
        with open(generator.csv, newline='') as f:
            seconds = [(float(r['time_s']), float(r['succeeded_per_s'])) for r in csv.DictReader(f)]
        done = [rate for at, rate in seconds if at >= self.o.warm_up][:-1] or [0.0]
        try:
            setup = generator.latency('rtd-1')
        except (StopIteration, FileNotFoundError):
            setup = {}
        # Of a stream that the server does not read in time.
        held_back = generator.report()['whole'].get('calls.failed.destination unreachable', 0)
        ms = lambda key: round(setup[key] / 1e3, 1) if setup.get(key) is not None else ''
        return dict(goodput=sum(done) / len(done), held_back=held_back, setup_p50_ms=ms('p50'), setup_p99_ms=ms('p99'))

    def capacity(self, name, transport):
        """Calls a second, by doubling while all are carried and then by what is carried beyond."""
        rate, best = self.o.start, 0.0
        while True:
            good = self.measure(name, transport, rate, 3)['goodput']
            print('  %s over %s: %d/s offered, %.0f/s carried' % (name, transport, rate, good), flush=True)
            # What was behind and comes on top is none that can be carried for long.
            best = max(best, min(good, rate))
            if good < 0.9 * rate:
                return best
            rate *= 1.5

    def run(self):
        for transport in self.o.transports:
            capacity = self.o.capacity or self.capacity(self.o.servers[0], transport)
            for rep in range(self.o.reps):
                for name in self.o.servers if rep % 2 == 0 else self.o.servers[::-1]:
                    self.points(name, transport, capacity, rep)
        print('the share of the CPU: %s' % self.how)

    def points(self, name, transport, capacity, rep):
        """All multiples, of the first server each between two measurements of what is carried."""
        if name != self.o.servers[0]:
            for times in self.o.times:
                self.point(name, transport, capacity, times, rep)
            return
        reference = lambda: round(self.measure(name, transport, capacity * REFERENCE, self.o.reference)['goodput'], 1)
        before = reference()
        for times in self.o.times:
            self.point(name, transport, capacity, times, rep)
            after = reference()
            self.results[-1].update(before=before, after=after, carried=(before + after) / 2)
            print('%-13s %-4s between %.0f and %.0f/s carried' % (name, transport, before, after), flush=True)
            before = after

    def point(self, name, transport, capacity, times, rep):
        kept, of = records.steal()
        row = dict(self.measure(name, transport, capacity * times, self.o.seconds), times=times, rep=rep)
        stolen, all_of = records.steal()
        row['steal'] = round(100 * (stolen - kept) / max(all_of - of, 1), 1)
        self.results.append(row)
        print('%-13s %-4s %4gx %7d/s offered %7.0f/s good  setup p50 %8s p99 %8s ms  refused %s silent %s held back %s  steal %s %%' % (
            name, transport, times, row['offered'], row['goodput'], row['setup_p50_ms'], row['setup_p99_ms'],
            row['refused'], row['silent'], row['held_back'], row['steal']), flush=True)

    def medians(self, name, transport):
        """A row for each multiple, with the medians of its runs, and what part of the possible it is."""
        rows = []
        for times in self.o.times:
            runs = [r for r in self.results if (r['server'], r['transport'], r['times']) == (name, transport, times)]
            mid = lambda key: statistics.median([r[key] for r in runs if r.get(key, '') != ''] or [float('nan')])
            rows.append(dict(server=name, transport=transport, times=times, runs=runs,
                             **{k: mid(k) for k in ('offered', 'goodput', 'carried', 'setup_p50_ms', 'setup_p99_ms')}))
        most = max(row['goodput'] for row in rows)
        peak = max([1.0] + [statistics.median(r['goodput'] / max(r['carried'], 1) for r in row['runs']) for row in rows
                            if row['offered'] > row['carried']])
        for row in rows:
            for run in row['runs']:
                could = peak * run['carried'] if 'carried' in run else most
                run['of_possible'] = round(run['goodput'] / max(1, min(could, run['offered'])), 3)
            row['of_possible'] = statistics.median(run['of_possible'] for run in row['runs'])
        return rows

    def judge(self):
        """The table, and what is not good of the first server."""
        table = ['| server | transport | offered | goodput/s | carried around it | of the possible | setup p50 ms | p99 ms |',
                 '|---|---|---|---|---|---|---|---|']
        wrong = []
        for transport in self.o.transports:
            for name in self.o.servers:
                for row in self.medians(name, transport):
                    shown = lambda key, form: records.spread([r for r in row['runs'] if r.get(key, '') != ''], key, form)
                    table.append('| %s | %s | %gx, %d/s | %s | %s | %s | %s | %s |' % (
                        name, transport, row['times'], row['offered'], shown('goodput', '%.0f'), shown('carried', '%.0f'),
                        shown('of_possible', '%.2f'), shown('setup_p50_ms', '%.0f'), shown('setup_p99_ms', '%.0f')))
                    if name == self.o.servers[0]:
                        wrong += self.wrong(name, transport, row)
        return table, wrong

    def wrong(self, name, transport, row):
        where = '%s over %s at %gx: ' % (name, transport, row['times'])
        if row['of_possible'] < 0.9:
            yield where + 'goodput %.0f %% of the possible' % (100 * row['of_possible'])
        if not row['setup_p99_ms'] < 500:
            yield where + 'setup p99 %.0f ms' % row['setup_p99_ms']

    def write(self, stem):
        os.makedirs(os.path.dirname(os.path.abspath(stem)), exist_ok=True)
        with open(stem + '.csv', 'w', newline='') as f:
            out = csv.DictWriter(f, FIELDS, extrasaction='ignore', restval='')
            out.writeheader()
            out.writerows(dict(r, offered=int(r['offered']), goodput=round(r['goodput'], 1)) for r in self.results)
        with open(stem + '.html', 'w') as f:
            f.write('<!doctype html><meta charset="utf-8"><title>Overload</title><h1>Goodput by offered load</h1><p>%s</p>'
                    % html.escape('Server: one worker with %s. %s' % (self.how, records.command())))
            for transport in self.o.transports:
                f.write('<h2>%s</h2>%s' % (transport.upper(), plot([r for n in self.o.servers for r in self.medians(n, transport)])))
        print('written: %s.csv, %s.html' % (stem, stem))


COLOURS = {'strowger': '#06c', 'kamailio': '#c40', 'strowger-off': '#888'}


def plot(rows):
    """Goodput by offered load, as an SVG."""
    width, height, pad = 640, 320, 56
    top_x = max(r['offered'] for r in rows)
    top_y = max(r['goodput'] for r in rows) * 1.1 or 1
    x = lambda v: pad + v / top_x * (width - 2 * pad)
    y = lambda v: height - pad - v / top_y * (height - 2 * pad)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="11">' % (width, height, width)]
    out.append('<path d="M%d %dV%dH%d" fill="none" stroke="#000"/>' % (pad, pad, height - pad, width - pad))
    for n in range(6):
        out.append('<text x="%d" y="%d" text-anchor="middle">%d</text>' % (x(top_x * n / 5), height - pad + 16, top_x * n / 5))
        out.append('<text x="%d" y="%d" text-anchor="end">%d</text>' % (pad - 6, y(top_y * n / 5) + 4, top_y * n / 5))
    out.append('<text x="%d" y="%d" text-anchor="middle">calls offered a second</text>' % (width / 2, height - 14))
    for at, name in enumerate(dict.fromkeys(r['server'] for r in rows)):
        points = ' '.join('%.1f,%.1f' % (x(r['offered']), y(r['goodput'])) for r in rows if r['server'] == name)
        colour = COLOURS.get(name, '#000')
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (points, colour))
        out.append('<text x="%d" y="%d" fill="%s">%s</text>' % (width - pad - 90, pad + 14 * at, colour, html.escape(name)))
    return ''.join(out) + '</svg>'


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--server-bin', help='another one for the server')
    p.add_argument('--servers', default='strowger,kamailio', type=lambda s: s.split(','),
                   help='strowger, kamailio, strowger-off (without overload control); capacity is that of the first')
    p.add_argument('--transports', default='udp,tcp', type=lambda s: s.split(','))
    p.add_argument('--times', default='0.5,0.8,1,1.5,2,4,6,10', type=lambda s: [float(t) for t in s.split(',')])
    p.add_argument('--quota', type=float, default=0.06, help='share of one CPU that the server has')
    p.add_argument('--period', type=int, default=10000, help='microseconds in which it has it')
    p.add_argument('--signals', action='store_true', help='by signals even where a control group can be made')
    p.add_argument('--capacity', type=float, help='calls a second taken for 1x, instead of looking for it')
    p.add_argument('--start', type=float, default=400, help='where the search for it begins')
    p.add_argument('--seconds', type=float, default=12)
    p.add_argument('--reference', type=float, default=8, help='seconds of each measurement between two points')
    p.add_argument('--warm-up', type=float, default=5)
    p.add_argument('--reps', type=int, default=1, help='how often each point is measured')
    p.add_argument('--record', help='a folder for table, figures and plots, with machine and command')
    p.add_argument('--out', default='target/overload', help='results go to OUT.csv and OUT.html')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    o.server_bin = os.path.abspath(o.server_bin or o.bin)
    if 'kamailio' in o.servers and not servers.Kamailio.binary():
        print('left out: Kamailio (apt-get install kamailio)')
        o.servers.remove('kamailio')
    # Ended from outside it still ends its servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(o)
    try:
        bench.run()
        table, wrong = bench.judge()
        bench.write(o.out)
        print('\n'.join(table + ['NOT GOOD: ' + w for w in wrong]))
        if o.record:
            said = ['', 'The server: one worker with %s.' % bench.how, ''] + ['- not good: ' + w for w in wrong]
            base = records.write(o.record, 'overload', 'Goodput and setup from half to ten times of what can be carried', o.reps,
                                 table + said, bench.results)
            for transport in o.transports:
                records.plot('%s-%s.svg' % (base, transport), 'calls offered a second', 'goodput, calls a second',
                             [(n, [(r['offered'], r['goodput']) for r in bench.medians(n, transport)]) for n in o.servers])
        return 1 if wrong else 0
    except KeyboardInterrupt:
        return 130


if __name__ == '__main__':
    sys.exit(main())
