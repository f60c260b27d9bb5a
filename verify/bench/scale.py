#!/usr/bin/env python3
"""What more workers bring, and what a second one costs: Strowger and Kamailio with 1, 2, 4, 8, 16 workers.

    verify/bench/scale.py --bin target/release/strowger [--workers 1,2,4] [--reps 3] [--record verify/bench/record]

Proxy-200 calls without credentials, callees registered. Server and generator have cores of their own: a server with
so many workers as half of the machine has cores has one core for each; the generator, one process of `strowger load`
for each of its cores and with an address of its own, has the other half (--generator-cores), whatever the number of workers, so
that all have the same peers. With more workers than that all of them share the server's half, and only the cost of a call is
measured, at the same load: on a machine with two cores one worker has a peak, and two workers show what the second one
costs.

On loopback a datagram ends in its receiver's socket, at the sender's cost: where few sockets take what many workers send,
these may wait for each other there. --generators 32 has more sockets, and processes that share the generator's cores.

For each number of workers, three times or more, minimum, median and maximum:
  cost     CPU microseconds of a call at --rate calls a second for each core, instructions and cache misses where this
           machine counts them; the time from INVITE to the first response (180, at once), as the callers see it
  peak     the highest rate in calls a second at which 99.99 % of the calls succeed, found by steps of a quarter and
           then halving, to --resolution per cent; how busy the server's cores and the busiest of the generator were in
           that trial, which says what limited it. With --quota the server has only such a share of its cores, of all
           together, so that the generator is not the limit
  speedup  of the peak, against that with one worker

`together` is Strowger with udp_segmentation = true: datagrams of one length to one peer go through the kernel as one.

What the machine itself takes from each of its cores when all are busy, two more servers show:
  apart    as many separate Strowgers of one worker each, with generators of their own, in place of one with so many
           workers: they share nothing at all, but each has fewer peers
  beside   a Strowger of one worker, all generators its peers, while another one keeps the rest of the server's cores
           busy with as many calls for each. Only the first is held to a quota and judged; the peak is told as if all
           carried what it carries
"""
import argparse
import contextlib
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import bench  # noqa: E402  (after the path is set)
import overload  # noqa: E402
import records  # noqa: E402
from harness import load, net, servers  # noqa: E402

SUCCESS = 0.9999
# A generator that is late by more than this part of a trial has not made the rate that it was asked for.
LATE = 0.05
# Callees of one process of the generator.
CALLEES = 1000
# Seconds that neighbours are called for longer: their generators begin first, one after the other, and are to end last.
LONGER = 2.0
# Arrangements of more than one Strowger.
OURS = ('apart', 'beside')
EVENTS = ('instructions', 'cache-misses')


def speeds(seconds=0.3):
    """What each core does of a loop that shares nothing while all run it, to the fastest; a glimpse, for it may change from
    one second to the next. Where cores are unlike, the slowest may decide what many workers carry."""
    own = sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context('fork')
    found, begin = context.Queue(), context.Barrier(len(own))

    def run(core):
        os.sched_setaffinity(0, {core})
        begin.wait(20)
        rounds, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(500):
                rounds += 1
        found.put(rounds)

    children = [context.Process(target=run, args=(core,)) for core in own]
    for one in children:
        one.start()
    rounds = sorted(found.get(timeout=20) for _ in children)
    for one in children:
        one.join()
    return [r / rounds[-1] for r in rounds]


def cores(first, count):
    return '%d-%d' % (first, first + count - 1)


def rates(text):
    """`10000` or `10000,kamailio:3000`."""
    found = {}
    for part in text.split(','):
        name, _, rate = part.rpartition(':')
        if not rate.isdigit() or name not in ('', 'strowger', 'together', 'kamailio') + OURS:
            raise argparse.ArgumentTypeError('%s is no rate, and no server with one' % part)
        found[name] = int(rate)
    if '' not in found:
        raise argparse.ArgumentTypeError('there is no rate for all others')
    return found


def rate_of(rates, name):
    return rates.get(name, rates[''])


class Plan:
    """Which cores a server with so many workers has, and which the generators."""

    def __init__(self, workers, machine, generators=None, theirs=None):
        self.workers = workers
        ours = max(1, machine - theirs if theirs else machine // 2)
        self.server = min(workers, ours)
        # As many whatever the number of workers: a call with many peers is dearer than one with few, which is nothing that
        # workers do.
        own = list(range(ours, machine)) or [0]
        self.generators = [own[k % len(own)] for k in range(generators or len(own))]
        self.has_peak = self.server == workers


class Apart:
    """Separate Strowgers of one worker, each on a core of its own."""

    def __init__(self, each):
        self.each, self.process = each, self

    def pids(self):
        return [pid for server in self.each for pid in server.process.pids()]

    def __enter__(self):
        self.open = contextlib.ExitStack()
        with contextlib.ExitStack() as started:
            for server in self.each:
                started.enter_context(server)
            self.open = started.pop_all()
        return self

    def __exit__(self, *how):
        return self.open.__exit__(*how)


class Beside(Apart):
    """A Strowger of one worker, and another one that keeps its neighbours busy."""

    def __init__(self, one, others, workers):
        super().__init__([one, others])
        # Parts of the calls.
        self.parts = [1, workers - 1]

    def pids(self):
        return self.each[0].process.pids()


class Scale:
    def __init__(self, options):
        self.o = options
        self.b = bench.Bench(options)
        self.events = self.counted()
        # Of server and generator in the last trial that conformed.
        self.busy = None
        # It was not cut short.
        self.whole = True
        # Of the generators, the same for each server, and of who registers their callees: a run has not so many that each
        # measurement could have its own.
        self.addresses, self.registrar = [], net.fresh_ip()

    @staticmethod
    def counted():
        """What `perf stat` counts here."""
        if not shutil.which('perf'):
            return []
        done = subprocess.run(['perf', 'stat', '-x', ';', '-e', ','.join(EVENTS), 'true'], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        return [e for e in EVENTS if any(e in line and line.split(';')[0].isdigit() for line in done.stderr.splitlines())]

    def server(self, name, plan):
        pinned = cores(0, plan.server)
        if name == 'apart':
            return Apart([servers.Strowger(self.o.bin, bench.DOMAIN, 1, False, cpu=str(k)) for k in range(plan.server)])
        if name == 'beside':
            one, others = [servers.Strowger(self.o.bin, bench.DOMAIN, count, False, cpu=cpu, steering=self.o.steering)
                           for count, cpu in ((1, '0'), (plan.server - 1, cores(1, plan.server - 1)))]
            return Beside(one, others, plan.server)
        if name in ('strowger', 'together'):
            return servers.Strowger(self.o.bin, bench.DOMAIN, plan.workers, False, cpu=pinned, steering=self.o.steering,
                                    config='udp_segmentation = true\n' if name == 'together' else '')
        return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), ['PROXY', 'USERS 0', 'WORKERS %d' % plan.workers],
                                memory=2048, extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=pinned, tcp=False)

    def callers(self, server, plan):
        """Server, core, address, injection lines, part of all calls and whether it is judged, for each process of the generator,
        its callees registered."""
        found, them = [], getattr(server, 'each', [server])
        if isinstance(server, Beside):
            # All generators are peers of each; the neighbours, second here, are busy first.
            pairs = [(of, k) for of in (1, 0) for k in range(len(plan.generators))]
        else:
            # As many for each.
            count = max(len(plan.generators) // len(them), 1) * len(them)
            pairs = [(k % len(them), k) for k, _ in enumerate(plan.generators[:count])]
        parts = getattr(server, 'parts', [1] * len(them))
        whole = sum(parts[of] for of, _ in pairs)
        for n, (of, k) in enumerate(pairs):
            if n == len(self.addresses):
                self.addresses.append(net.fresh_ip())
            ip, first, its = self.addresses[n], n * CALLEES, them[of].address
            names = [bench.user(first + i) for i in range(CALLEES)]
            net.register_block(its, names, ip, 5060, bench.DOMAIN, source=self.registrar)
            rows = [(names[i % CALLEES], bench.user(1000000 + i)) for i in range(20000)]
            found.append((its, plan.generators[k], ip, rows, parts[of] / whole, of == 0 or not isinstance(server, Beside)))
        return found

    @contextlib.contextmanager
    def calling(self, callers, rate, seconds):
        """Generators that call so often together; they end with the block."""
        with contextlib.ExitStack() as started:
            running = []
            for its, cpu, ip, rows, part, judged in callers:
                lasts = seconds if judged else seconds + LONGER
                one = load.Load(self.o.bin, 'caller.xml', its, callee='callee.xml', ip=ip, rate='%.3f' % (rate * part),
                                calls=int(rate * part * lasts), rows=rows, cpu=cpu, keys=[('domain', bench.DOMAIN)],
                                # What it hands to the kernel as one goes to one worker.
                                extra=['--grain', '%g' % self.o.grain, '--udp-segmentation', 'off'], wait=False)
                one.cpu, one.judged = cpu, judged
                started.callback(one.stop)
                running.append(one)
                # Neighbours are busy before whoever is judged begins.
                if not judged:
                    one.started()
            for one in running:
                if one.begun is None:
                    one.started()
            yield running

    # ------------------------------------------------------------ one measurement
    def cost(self, name, server, plan, callers):
        o, rate = self.o, rate_of(self.o.rate, name) * plan.server
        with self.calling(callers, rate, bench.WARM_UP + o.seconds + 2) as running:
            time.sleep(bench.WARM_UP)
            pids = server.process.pids()
            first, t0 = bench.cpu_ns(pids), time.time()
            counts = self.count(pids, o.seconds)
            last, t1 = bench.cpu_ns(pids), time.time()
            for one in running:
                one.wait(60)
        running = [one for one in running if one.judged]
        calls = sum(one.done_at(t1) - one.done_at(t0) for one in running)
        sums = [one.totals() for one in running]
        failed, sent_again = sum(s['failed'] for s in sums), sum(s['retransmissions'] for s in sums)
        found = dict(cpu_us=(last - first) / 1e3 / calls, failed=failed, sent_again=sent_again,
                     response_p50_us=max(one.latency('response')['p50'] for one in running),
                     response_p99_us=max(one.latency('response')['p99'] for one in running))
        found.update((event, value / calls) for event, value in counts.items())
        return found

    def count(self, pids, seconds):
        if not self.events:
            time.sleep(seconds)
            return {}
        done = subprocess.run(['perf', 'stat', '-x', ';', '-e', ','.join(self.events), '-p', ','.join(map(str, pids)), '--',
                               'sleep', '%g' % seconds], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        fields = [line.split(';') for line in done.stderr.splitlines()]
        return {f[2].split(':')[0]: float(f[0]) for f in fields if len(f) > 2 and f[0].isdigit()}

    def carries(self, server, plan, callers, rate):
        """Whether 99.99 % of the calls of a trial succeed; prints why not, and how busy both sides were."""
        with self.calling(callers, rate, self.o.trial) as running:
            pids, generators, t0 = server.process.pids(), [one.process.pids() for one in running], time.time()
            first, firsts = bench.cpu_ns(pids), [bench.cpu_ns(g) for g in generators]
            # Looked at while all of them call, as long as they have begun together: what follows that is not what the
            # server carries.
            time.sleep(max(min(one.begun for one in running) + self.o.trial - 0.3 - t0, 0.5))
            spent = (time.time() - t0) * 1e9
            busy = (bench.cpu_ns(pids) - first) / spent / (1 if isinstance(server, Beside) else plan.server)
            by_core = {}
            for one, its, before in zip(running, generators, firsts):
                by_core[one.cpu] = by_core.get(one.cpu, 0) + (bench.cpu_ns(its) - before) / spent
            generator = max(by_core.values())
            end = max(one.begun for one in running) + self.o.trial + self.o.patience
            others = [one for one in running if not one.judged]
            while time.time() < end and any(one.process.running() for one in running):
                time.sleep(0.02)
            late = [one for one in running if one.process.running()]
            running = [one for one in running if one.judged]
            ended = not any(one in running for one in late)
            for one in late:
                one.process.kill()
            lacked = 'the calls did not end' if set(late) & set(others) else self.missed(others) if others else ''
        why, late = 'the calls did not end', 0.0
        if ended:
            why, late = self.missed(running), max(one.report()['lateness']['p999'] for one in running) / 1e6
            if not why and late > LATE * self.o.trial:
                why = 'a generator was late'
        print('      %7.0f calls/s %s; server busy by %.0f %%, generator by %.0f %%, late by %.0f ms (p99.9)%s' % (
            rate, 'conforms' if not why else 'does not: ' + why, 100 * busy, 100 * generator, 1e3 * late,
            lacked and '; of the neighbours: ' + lacked), flush=True)
        if not why:
            self.busy = (busy, generator)
        return not why

    @staticmethod
    def missed(running):
        """What these generators' calls lacked; nothing if they conform."""
        sums = [one.totals() for one in running]
        created, ok = sum(s['created'] for s in sums), sum(s['ok'] for s in sums)
        if ok < SUCCESS * created:
            return '%d of %d calls failed' % (created - ok, created)
        if sum(s['retransmissions'] for s in sums) > 0.01 * created:
            return 'more than one call in a hundred had to repeat a message'
        return ''

    def peak(self, name, server, plan, callers):
        """The highest rate that conforms, calls a second. A rate that does not is tried twice."""
        low, high, rate = 0.0, None, float(rate_of(self.o.begin, name) * plan.server)
        while high is None or high - low > max(high * self.o.resolution / 100, 1):
            if any(self.carries(server, plan, callers, rate) for _ in range(2)):
                low = rate
                rate = rate * self.o.step if high is None else (low + high) / 2
            else:
                high = rate
                rate = (low + high) / 2 if low else rate / self.o.step
            if rate < 10:
                break
        return low

    def once(self, name, plan):
        judged = 1 if name == 'beside' else plan.server
        share = overload.Group(self.o.quota * judged, self.o.period) if self.o.quota < 1 else None
        if share and share.make() is None:
            raise SystemExit('missing: a control group with a quota (--quota), which this machine does not let make')
        try:
            with self.server(name, plan) as server:
                callers = self.callers(server, plan)
                found = {}
                if self.o.cost:
                    found = self.cost(name, server, plan, callers)
                    print('   %s' % ', '.join('%s %.1f' % pair for pair in found.items()), flush=True)
                else:
                    # A trial of a server just started would judge what the kernel gives it then.
                    with self.calling(callers, rate_of(self.o.begin, name) * plan.server / 2, 2) as running:
                        for one in running:
                            one.wait(20)
                if plan.has_peak and self.o.peak:
                    if share:
                        share.take(server.process.pids())
                    found['peak'] = self.peak(name, server, plan, callers)
                    if found['peak']:
                        found['busy'], found['generator_busy'] = (100 * b for b in self.busy)
        finally:
            if share:
                share.remove()
        return found

    # ------------------------------------------------------------ all of them
    def run(self):
        results = {}
        try:
            self.measure(results)
        except KeyboardInterrupt:
            print('interrupted: what follows was measured until then', flush=True)
            self.whole = False
        except Exception as error:
            print('%s: what follows was measured until then' % (str(error) or repr(error)), flush=True)
            self.whole = False
        shutil.rmtree(self.b.dir, ignore_errors=True)
        return results

    def measure(self, results):
        """Adds to `results` as it goes."""
        machine = os.cpu_count() or 1
        names = [n for n in self.o.servers if self.b.available('strowger' if n in OURS else n)]
        for rep in range(self.o.reps):
            for workers in self.o.workers:
                plan = Plan(workers, machine, self.o.generators, self.o.generator_cores)
                if workers > 2 * plan.server:
                    # A second worker for each core has been seen.
                    continue
                for name in names if rep % 2 == 0 else names[::-1]:
                    if name in OURS and (workers == 1 or not plan.has_peak):
                        # The same as one, or there are too few cores.
                        continue
                    print('%d/%d %s, %d worker(s) on core(s) %s, generator on %s' % (
                        rep + 1, self.o.reps, name, workers, cores(0, plan.server),
                        ','.join(map(str, plan.generators))), flush=True)
                    found = self.once(name, plan)
                    results.setdefault((name, workers), []).append(found)


FIELDS = (('peak', 'peak calls/s', '%.0f'), ('busy', 'server busy then, %', '%.0f'),
          ('generator_busy', 'generator, %', '%.0f'), ('cpu_us', 'us/call', '%.1f'), ('instructions', 'instructions/call', '%.0f'),
          ('cache-misses', 'cache misses/call', '%.0f'), ('response_p50_us', 'response p50 us', '%.0f'),
          ('response_p99_us', 'response p99 us', '%.0f'), ('failed', 'failed', '%.0f'))


def lines(results):
    """The table as lines of Markdown."""
    middle = lambda runs, key: statistics.median([r[key] for r in runs if key in r] or [float('nan')])
    shown = [f for f in FIELDS if any(f[0] in r for runs in results.values() for r in runs)]
    yield '| server | workers | runs | %s | speedup | cost to one worker |' % ' | '.join(f[1] for f in shown)
    yield '|---|---|---|%s---|---|' % ('---|' * len(shown))
    for (name, workers), runs in sorted(results.items()):
        one = results.get(('strowger' if name in OURS else name, 1), runs)
        cost = 'instructions' if 'instructions' in runs[0] and 'instructions' in one[0] else 'cpu_us'
        speedup = middle(runs, 'peak') / (middle(one, 'peak') or float('nan'))
        dearer = middle(runs, cost) / middle(one, cost)
        yield '| %s | %d | %d | %s | %s |' % (
            name, workers, len(runs), ' | '.join(records.spread(runs, key, form) for key, _, form in shown),
            ' | '.join('%.2f' % x if x == x else '-' for x in (speedup, dearer)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='strowger,kamailio', type=lambda s: s.split(','),
                   help='strowger, together (with udp_segmentation), kamailio, apart (separate Strowgers of one '
                        'worker), beside (one worker, another server busy beside it)')
    p.add_argument('--workers', default=[1, 2, 4, 8, 16], type=lambda s: [int(w) for w in s.split(',')],
                   help='as far as the machine has cores')
    p.add_argument('--steering', default='auto', choices=('auto', 'kernel', 'ring'), help="Strowger's")
    p.add_argument('--rate', type=rates, default=rates('2000'),
                   help="calls a second for each of the server's cores, of the costs; 10000,kamailio:3000 for one server another rate")
    p.add_argument('--begin', type=rates, default=rates('6000'),
                   help="calls a second for each of the server's cores that the search begins with; as --rate")
    p.add_argument('--step', type=float, default=1.25, help='the search multiplies by this until a rate is too high')
    p.add_argument('--trial', type=float, default=6, help='seconds of a trial')
    p.add_argument('--patience', type=float, default=90, help='seconds that the calls of a trial have to end after it')
    p.add_argument('--generators', type=int, help='processes of the generator, and so peers: one for each of its cores by default; more share those cores')
    p.add_argument('--generator-cores', type=int, help='how many of the cores, the last, are theirs: half by default')
    p.add_argument('--no-cost', dest='cost', action='store_false', help='the peaks only')
    p.add_argument('--grain', type=float, default=0, help="the generators' grain, milliseconds (docs/design/load-lateness.md)")
    p.add_argument('--quota', type=float, default=1, help='share of its cores, of all together, that the server has while its peak is sought')
    p.add_argument('--period', type=int, default=10000, help='period of that quota, microseconds')
    p.add_argument('--resolution', type=float, default=5, help='per cent')
    p.add_argument('--seconds', type=float, default=5, help='length of the window of the costs')
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--no-peak', dest='peak', action='store_false', help='the costs only')
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    if not o.cost and not o.peak:
        p.error('--no-cost and --no-peak leave nothing to measure')
    if o.generator_cores is not None and not 1 <= o.generator_cores < (os.cpu_count() or 1):
        p.error('--generator-cores: from 1 to %d on this machine' % ((os.cpu_count() or 1) - 1))
    o.bin, o.generator = os.path.abspath(o.bin), 'load'
    if not shutil.which('taskset'):
        print('missing: taskset (apt-get install util-linux)')
        return 2
    scale = Scale(o)
    if not scale.events:
        print('this machine counts no instructions and cache misses (perf); for those of a second worker:\n'
              '  verify/bench/emulated/run.sh %s --servers strowger --workloads proxy200 --grades single,kernel,ring' % os.path.relpath(o.bin))
    # As Ctrl-C: what was measured is shown, and nothing is left behind.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    before = speeds()
    print('cores, all of them busy for 0.3 s: the slowest does %.0f %% of what the fastest does' % (100 * before[0]), flush=True)
    results = scale.run()
    table = list(lines(results)) + ['', 'Cores, all of them busy for 0.3 s just before: the slowest did %.0f %% of what the fastest did.' % (
        100 * before[0])]
    print()
    print('\n'.join(table))
    if o.record:
        records.write(o.record, 'scale', 'Scaling with workers', o.reps, table,
                      [dict(server=n, workers=w, **r) for (n, w), runs in results.items() for r in runs])
    return 1 if not scale.whole or any(r.get('failed') for runs in results.values() for r in runs) else 0


if __name__ == '__main__':
    sys.exit(main())
