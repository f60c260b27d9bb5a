#!/usr/bin/env python3
"""What a generator costs: `strowger load` and SIPp on the same flows, at the same rates, in turns.

    verify/bench/load.py --bin target/release/strowger [--reps 2] [--rates 1000,4000] [--high 5000,28000] [--seconds 4]

Two flows: a call of both sides (INVITE 180 200 ACK BYE 200, 20 ms of ringing and of speech) through a bare
relay, and REGISTER with digest at a registrar that is a scenario as well. Both read the same scenario files
(verify/sipp). The figure is calls per second of processor time, over all threads of the generator (both sides
of a call); the system says how long they ran. What lies between has CPU 0, the generator CPU 1.

The rate matters, for a generator that sleeps and wakes for a few messages pays for that: so both are measured at
the same rates, and each near the highest that one processor lets it make (--high, --high-register: SIPp's and
Strowger's); the ratio is that of each at its best.

The last column is the engine alone, both sides in memory without sockets (load/examples/scenario_cost.rs).
What the relay uses for the packets of a call is a measure of the kernel's part: it takes and sends as many, one by
one, and reads none. Then the witness: both at a low rate against the same server must
agree on success and on the time from INVITE to 200.

At equal rates the ratio of both is printed as well; that of each at its best is what is judged. With --scaling the
self-test says how much more two workers make than one: printed and not judged, for on two processors the generator and
its answering side share them.

The last lines are a verdict on what was asked of it (verdicts.py): how many times SIPp's calls, over sockets and in memory;
what was not measured is not kept. With --judge the exit status is 1 then; it is where the witness does not agree.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import verdicts  # noqa: E402  (after the path is set)
from bench import Relay, cpu_ns, password, user  # noqa: E402
from harness import load, net, sipp  # noqa: E402
from witness import witness  # noqa: E402

DOMAIN = 'load.test'
USERS = 10000
WARM_UP = 4.0
FLOWS = {'call': 'uac and uas through a relay', 'register': 'REGISTER 401 REGISTER 200'}


def rates(text):
    return [int(rate) for rate in text.split(',')]


def user_seconds(pids):
    """Seconds that these processes spent outside the kernel so far."""
    total = 0
    for pid in pids:
        try:
            with open('/proc/%d/stat' % pid) as f:
                total += int(f.read().rsplit(')', 1)[1].split()[11])
        except OSError:
            continue
    return total / os.sysconf('SC_CLK_TCK')


class Registrar:
    """A scenario that registers everybody, on a processor of its own."""

    def __init__(self, binary, cpu):
        self.binary, self.cpu = binary, cpu

    def __enter__(self):
        self.load = load.Load(self.binary, 'registrar.xml', cpu=self.cpu)
        self.process, self.address = self.load.process, (self.load.ip, self.load.port)
        return self

    def __exit__(self, *_):
        self.load.stop()


class Bench:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-bench-load-')
        self.floor = []
        # What lies between, and the generator.
        self.cpus = (0, 1)
        self.relay = os.path.join(self.dir, 'relay')
        subprocess.run([shutil.which('cc') or 'gcc', '-O2', '-o', self.relay, os.path.join(HERE, 'relay.c')], check=True)

    def between(self, flow, ip):
        """The relay of calls, or the registrar."""
        if flow == 'call':
            return Relay(self.relay, (ip, 5061), (ip, 5060), self.cpus[0])
        return Registrar(self.o.bin, self.cpus[0])

    def generators(self, flow, name, remote, ip, total):
        """The processes of one generator."""
        o = self.o
        extra = o.extra.split()
        second = {'call': user, 'register': lambda i: '[authentication username=%s password=%s]' % (user(i), password(i))}
        rows = [(user(i), second[flow](i)) for i in range(USERS)]
        common = dict(ip=ip, rate=o.rate, calls=total, rows=rows, keys=[('domain', DOMAIN)], cpu=self.cpus[1])
        if flow == 'register':
            if name == 'sipp':
                return [sipp.Sipp('register.xml', remote, port=5061, limit=10000, **common)]
            return [load.Load(o.bin, 'register.xml', remote, port=5061, extra=extra, **common)]
        if name == 'sipp':
            return [sipp.Sipp('callee.xml', ip=ip, port=5060, cpu=self.cpus[1]),
                    sipp.Sipp('caller.xml', remote, port=5061, limit=10000, **common)]
        return [load.Load(o.bin, 'caller.xml', remote, callee='callee.xml', extra=extra, **common)]

    def measure(self, flow, name):
        o, ip = self.o, net.fresh_ip()
        total = int(o.rate * (WARM_UP + o.seconds + 2))
        with self.between(flow, ip) as between:
            running = self.generators(flow, name, between.address, ip, total)
            try:
                time.sleep(WARM_UP)
                pids = [pid for g in running for pid in g.process.pids()]
                own = user_seconds(pids)
                first, relay_first, t0 = cpu_ns(pids), cpu_ns(between.process.pids()), time.time()
                time.sleep(o.seconds)
                last, relay_last, t1 = cpu_ns(pids), cpu_ns(between.process.pids()), time.time()
                own = user_seconds(pids) - own
                status = running[-1].wait(60)
            finally:
                for g in running:
                    g.stop()
            calls = running[-1].done_at(t1) - running[-1].done_at(t0)
            sums = running[-1].totals()
        trouble = '' if status == 0 and sums['ok'] == total else '  TROUBLE: status %s, %d of %d calls' % (
            status, sums['ok'], total)
        if flow == 'call' and not trouble:
            self.floor.append(calls / ((relay_last - relay_first) / 1e9))
        return calls / ((last - first) / 1e9), own / calls, calls / (t1 - t0), trouble

    def in_memory(self, flow):
        program = os.path.join(os.path.dirname(self.o.bin), 'examples', 'scenario_cost')
        if not os.path.exists(program):
            print('left out: the engine alone (cargo build --release -p load --example scenario_cost)')
            return None
        # Small pages, as strowger asks for.
        env = dict(os.environ, MIMALLOC_ALLOW_THP='0')
        said = subprocess.run([program, flow, '200000'], stdout=subprocess.PIPE, text=True, env=env).stdout
        found = re.search(r': (\d+) calls/s', said)
        return float(found.group(1)) if found else None

    def once(self, rep, flow, found):
        """One repetition: both at the common rates, in turns, then Strowger at the high one."""
        o = self.o
        turns = ('sipp', 'strowger') if rep % 2 == 0 else ('strowger', 'sipp')
        plan = [(rate, name) for rate in o.rates for name in turns]
        plan += zip(o.high if flow == 'call' else o.high_register, ('sipp', 'strowger'))
        for o.rate, name in plan:
            per_second, own, rate, trouble = self.measure(flow, name)
            print('%d/%d %-9s %-9s %6d/s %9.0f calls per CPU second, %6.1f us a call, %5.1f outside the kernel%s' % (
                rep + 1, o.reps, flow, name, o.rate, per_second, 1e6 / per_second, own * 1e6, trouble), flush=True)
            # Who does not keep up does not count.
            if not trouble and rate > 0.97 * o.rate:
                found.setdefault((flow, name, o.rate), []).append((per_second, own * 1e6))

    def trusted(self, workers):
        """Calls a second that the self-test trusts so many workers with."""
        path = os.path.join(self.dir, 'trusted-%d.json' % workers)
        subprocess.run([self.o.bin, 'load', '--self-test', '-r', '16000', '--lateness', '100', '--trial', '2s', '--workers',
                        str(workers), '--json', path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with open(path) as f:
                return json.load(f)['peak']['load'] or float('nan')
        except (OSError, KeyError, TypeError, ValueError):
            return float('nan')

    def scaling(self):
        one, two = self.trusted(1), self.trusted(2)
        print('the self-test, calls/s: one worker %.0f, two %.0f, %.1f times (not judged; %d processors)' % (
            one, two, two / one, os.cpu_count()))

    def run(self):
        o, found, alone = self.o, {}, {}
        for rep in range(o.reps):
            for flow in FLOWS:
                self.once(rep, flow, found)
                in_memory = self.in_memory(flow)
                if in_memory:
                    alone.setdefault(flow, []).append(in_memory)
        median = {key: statistics.median(v[0] for v in values) for key, values in found.items()}
        print('\ncalls per CPU second, both sides; medians of %d' % o.reps)
        bests, memories = {}, {}
        for flow in FLOWS:
            best = {}
            for name in ('sipp', 'strowger'):
                own = {rate: value for (f, n, rate), value in median.items() if (f, n) == (flow, name)}
                print('%-9s %-9s %s' % (flow, name, ', '.join('%.0f at %d/s' % (v, r) for r, v in sorted(own.items()))))
                best[name] = bests[flow, name] = max(own.values(), default=float('nan'))
            for rate in o.rates:
                both = [median.get((flow, name, rate), float('nan')) for name in ('strowger', 'sipp')]
                print('%-9s both at %d/s: %.1f times (not judged)' % (flow, rate, both[0] / both[1]))
            print('%-9s each at its best: %.1f times (judged)' % (flow, best['strowger'] / best['sipp']))
            if flow in alone:
                memory = memories[flow] = statistics.median(alone[flow])
                print('%-9s the engine alone, in memory: %.0f, %.0f times' % (flow, memory, memory / best['sipp']))
        print('a bare relay of the same packets: %s calls per CPU second' % ', '.join('%.0f' % f for f in sorted(self.floor)))
        if o.scaling:
            self.scaling()
        print()
        agreed = witness(o.bin, self.dir)
        shutil.rmtree(self.dir, ignore_errors=True)
        kept = verdicts.tell('the generator', verdicts.generator(bests, memories))
        return 1 if not agreed or (o.judge and not kept) else 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--rates', type=rates, default=[1000, 4000], help='calls a second, of both')
    p.add_argument('--high', type=rates, default=[5000, 28000], help='calls a second near what SIPp and Strowger can make')
    p.add_argument('--high-register', type=rates, default=[11000, 40000], help='registrations a second, likewise')
    p.add_argument('--seconds', type=float, default=4, help='length of the window')
    p.add_argument('--reps', type=int, default=2)
    p.add_argument('--extra', default='', help='further options of strowger load, separated by blanks')
    p.add_argument('--scaling', action=argparse.BooleanOptionalAction, default=True,
                   help='the self-test with one worker and with two, some two minutes each')
    p.add_argument('--judge', action='store_true', help='exit with 1 also if a goal is not reached, or not measured')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    for tool, why in (('sipp', 'apt-get install sip-tester'), ('taskset', 'apt-get install util-linux')):
        if not shutil.which(tool):
            print('missing: %s (%s)' % (tool, why))
            return 2
    return Bench(o).run()


if __name__ == '__main__':
    sys.exit(main())
