#!/usr/bin/env python3
"""What a generator costs: `strowger load` and SIPp on the same flows, at the same rate, in turns.

    verify/bench/load.py --bin target/release/strowger [--reps 3] [--rate 1000] [--seconds 5]

Two flows: a call of both sides (INVITE 180 200 ACK BYE 200, 20 ms of ringing and of speech) through a bare
relay, and REGISTER with digest at a Strowger server. Both read the same scenario files (verify/sipp). The
figure is calls per second of processor time, over all threads of the generator (both sides of a call); the
system says how long they ran. What lies between has CPU 0, the generator CPU 1.

The last column is the engine alone, both sides in memory without sockets (load/examples/scenario_cost.rs).
What the relay uses for the packets of a call is the floor: it takes and sends as many and reads none; the
kernel's part of it no generator can spare. Then the witness: both at a low rate against the same server must
agree on success and on the time from INVITE to 200.
"""
import argparse
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

from bench import Relay, cpu_ns, password, user  # noqa: E402  (after the path is set)
from harness import load, net, servers, sipp  # noqa: E402
from witness import witness  # noqa: E402

DOMAIN = 'load.test'
USERS = 10000
WARM_UP = 4.0
FLOWS = {'call': 'uac and uas through a relay', 'register': 'REGISTER 401 REGISTER 200'}


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


class Bench:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-bench-load-')
        self.data, self.floor = None, []
        # What lies between, and the generator.
        self.cpus = (0, 1)
        self.relay = os.path.join(self.dir, 'relay')
        subprocess.run([shutil.which('cc') or 'gcc', '-O2', '-o', self.relay, os.path.join(HERE, 'relay.c')], check=True)

    def server(self):
        if not self.data:
            self.data = os.path.join(self.dir, 'data')
            os.makedirs(self.data)
            servers.import_users(self.o.bin, [(user(i), password(i)) for i in range(USERS)], self.data, DOMAIN)
        return servers.Strowger(self.o.bin, DOMAIN, 1, True, data=self.data, cpu=self.cpus[0])

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
        between = self.server() if flow == 'register' else Relay(self.relay, (ip, 5061), (ip, 5060), self.cpus[0])
        with between:
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
        if flow == 'call':
            self.floor.append(calls / ((relay_last - relay_first) / 1e9))
        return calls / ((last - first) / 1e9), own / calls, calls / (t1 - t0), trouble

    def in_memory(self, flow):
        program = os.path.join(os.path.dirname(self.o.bin), 'examples', 'scenario_cost')
        if not os.path.exists(program):
            print('left out: the engine alone (cargo build --release -p load --example scenario_cost)')
            return None
        said = subprocess.run([program, flow, '200000'], stdout=subprocess.PIPE, text=True).stdout
        found = re.search(r': (\d+) calls/s', said)
        return float(found.group(1)) if found else None

    def run(self):
        found = {}
        for rep in range(self.o.reps):
            for flow in FLOWS:
                for name in ('sipp', 'strowger') if rep % 2 == 0 else ('strowger', 'sipp'):
                    per_second, own, rate, trouble = self.measure(flow, name)
                    found.setdefault((flow, name), []).append(per_second)
                    found.setdefault((flow, name + ' user'), []).append(own * 1e6)
                    print('%d/%d %-9s %-9s %9.0f calls per CPU second, %6.1f us a call, %5.1f outside the kernel, '
                          '%.0f calls/s%s' % (rep + 1, self.o.reps, flow, name, per_second, 1e6 / per_second, own * 1e6, rate,
                                              trouble), flush=True)
                alone = self.in_memory(flow)
                if alone:
                    found.setdefault((flow, 'memory'), []).append(alone)
        median = {key: statistics.median(values) for key, values in found.items()}
        print('\n%-9s %8s %9s %6s %10s %6s   calls per CPU second, both sides; medians of %d at %d calls/s' % (
            'flow', 'sipp', 'strowger', 'ratio', 'in memory', 'ratio', self.o.reps, self.o.rate))
        for flow in FLOWS:
            theirs, ours, alone = (median.get((flow, name)) for name in ('sipp', 'strowger', 'memory'))
            print('%-9s %8.0f %9.0f %6.1f %10s %6s' % (
                flow, theirs, ours, ours / theirs, '%.0f' % alone if alone else '-', '%.1f' % (alone / theirs) if alone else '-'))
        for flow in FLOWS:
            theirs, ours = median[flow, 'sipp user'], median[flow, 'strowger user']
            print('%-9s outside the kernel: sipp %.1f us a call, strowger %.1f, ratio %.1f' % (flow, theirs, ours, theirs / max(ours, 0.1)))
        print('a bare relay of the same packets: %.0f calls per CPU second' % statistics.median(self.floor))
        print()
        agreed = witness(self.o.bin, self.dir)
        shutil.rmtree(self.dir, ignore_errors=True)
        return 0 if agreed else 1


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--rate', type=int, default=1000, help='calls a second')
    p.add_argument('--seconds', type=float, default=5, help='length of the window')
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--extra', default='', help='further options of strowger load, separated by blanks')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    for tool, why in (('sipp', 'apt-get install sip-tester'), ('taskset', 'apt-get install util-linux')):
        if not shutil.which(tool):
            print('missing: %s (%s)' % (tool, why))
            return 2
    return Bench(o).run()


if __name__ == '__main__':
    sys.exit(main())
