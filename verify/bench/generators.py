#!/usr/bin/env python3
"""What a generator costs: `strowger load` and SIPp on the same flows, from the same scenario files, alternately.

    verify/bench/generators.py --bin target/release/strowger [--reps 2] [--rates 1000,4000] [--high 5000,28000] [--judge]
    verify/bench/emulated/run.sh target/release/strowger generators [--rates 500] [--generators strowger]

Two flows: a call of both sides (INVITE 180 200 ACK BYE 200, 20 ms of ringing and of speech) through the bare relay, and
REGISTER with digest at a registrar that is a scenario as well. The figure is calls for each second of processor time of
the generator, both sides of a call. What lies between has CPU 0, the generator CPU 1. `--high` and `--high-register` are
rates near the most that SIPp and Strowger can make; the ratio that is judged is that of each at its best. The engine
alone, in memory, is the example `scenario_cost` of the crate `load`. In the emulated machine (`--emulated`) a nanosecond
is an instruction.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from harness import load, net, servers, sipp  # noqa: E402  (after the path is set)

USERS, FLOWS = 10000, ('call', 'register')
# Times SIPp's calls over sockets, and in memory; thousand instructions of a call from that rate on.
LEAST_SOCKETS, LEAST_MEMORY, MOST_INSTRUCTIONS, FROM_RATE = 4, 50, 110, 1500


def user(i):
    return 'b%d' % (1000000 + i)


def numbers(text):
    return [int(number) for number in text.split(',')]


def cpu_seconds(pids):
    """Of every thread of these processes so far."""
    total = 0
    for pid in pids:
        for task in os.listdir('/proc/%d/task' % pid):
            with open('/proc/%d/task/%s/schedstat' % (pid, task)) as f:
                total += int(f.read().split()[0])
    return total / 1e9


def between(o, flow, ip):
    """The process that calls or registrations go through, and its address."""
    address = (net.fresh_ip(), 5060)
    if flow == 'register':
        registrar = load.Load(o.bin, 'registrar.xml', ip=address[0], cpu=o.cpus[0])
        return registrar.process, address
    places = ['%s:%d' % place for place in (address, (ip, 5061), (ip, 5060))]
    pin = ['taskset', '-c', str(o.cpus[0])] if o.cpus[0] is not None else []
    process = servers.Process(pin + [o.bin, 'lab', 'serve', 'relay'] + places)
    net.poll('the relay is ready', 20, lambda: process.said('ready'))
    return process, address


def generators(o, flow, name, remote, ip, rate, calls):
    """The processes of one generator."""
    second = user if flow == 'call' else lambda i: '[authentication username=%s password=p%d]' % (user(i), 1000000 + i)
    common = dict(ip=ip, rate=rate, calls=calls, rows=[(user(i), second(i)) for i in range(USERS)],
                  keys=[('domain', 'load.test')], cpu=o.cpus[1])
    scenario, port = ('caller.xml', 5060) if flow == 'call' else ('register.xml', 5061)
    if name == 'strowger':
        callee = 'callee.xml' if flow == 'call' else None
        return [load.Load(o.bin, scenario, remote, callee=callee, port=port, extra=o.extra.split(), **common)]
    callee = [sipp.Sipp('callee.xml', ip=ip, cpu=o.cpus[1])] if flow == 'call' else []
    return callee + [sipp.Sipp(scenario, remote, port=5061, limit=10000, **common)]


def measure(o, flow, name, rate):
    """Calls for a second of the generator's processor time, or nothing if not all was well."""
    ip, calls = net.fresh_ip(), int(rate * (o.warm_up + o.seconds + 2))
    through, address = between(o, flow, ip)
    running = []
    try:
        running = generators(o, flow, name, address, ip, rate, calls)
        time.sleep(o.warm_up)
        pids = [pid for one in running for pid in one.process.pids()]
        first, begun = cpu_seconds(pids), time.time()
        time.sleep(o.seconds)
        spent, ended = cpu_seconds(pids) - first, time.time()
        status = running[-1].wait(120)
    finally:
        for one in running:
            one.stop()
        through.stop()
    done, ok = running[-1].done_at(ended) - running[-1].done_at(begun), running[-1].totals()['ok']
    # Who does not keep up does not count.
    good = status == 0 and ok == calls and done > 0.97 * rate * (ended - begun)
    cost = '%7.1f thousand instructions' % (spent / done * 1e6) if o.emulated else '%6.1f us' % (spent / done * 1e6)
    print('%-9s %-9s %6d/s %s a call%s' % (flow, name, rate, cost, '' if good else '  NOT COUNTED: %d of %d calls' % (
        ok, calls)), flush=True)
    return done / spent if good else None


def in_memory(o):
    """Calls of the engine alone for a second of processor time."""
    program = os.path.join(os.path.dirname(o.bin), 'examples', 'scenario_cost')
    if o.emulated or not os.path.exists(program):
        return None
    # Small pages, as strowger asks for.
    done = subprocess.run([program, 'call', '200000'], stdout=subprocess.PIPE, text=True, env=dict(os.environ, MIMALLOC_ALLOW_THP='0'))
    found = re.search(r': (\d+) calls/s', done.stdout)
    return float(found.group(1)) if found else None


def judged(o, best, memory):
    """What is not as it should be."""
    if o.emulated:
        costs = {rate: 1e6 / calls for (flow, name, rate), calls in best.items() if (flow, name) == ('call', 'strowger')}
        asked = {rate: cost for rate, cost in costs.items() if rate >= FROM_RATE}
        return ['%.0f thousand instructions at %d/s' % (cost, rate) for rate, cost in asked.items() if not cost <= MOST_INSTRUCTIONS] \
            + ([] if asked else ['no rate of %d/s or more was measured' % FROM_RATE])
    wrong = []
    for flow in FLOWS:
        ours, theirs = (max((v for (f, n, _), v in best.items() if (f, n) == (flow, name)), default=None) for name in ('strowger', 'sipp'))
        goals = [('sockets', ours, LEAST_SOCKETS)] + ([('memory', memory, LEAST_MEMORY)] if flow == 'call' else [])
        for where, own, least in goals:
            if not own or not theirs:
                wrong.append('%s over %s: not measured' % (flow, where))
                continue
            print('%-9s over %s, each at its best: %.1f times SIPp (at least %d)' % (flow, where, own / theirs, least))
            wrong += ['%s over %s: %.1f times' % (flow, where, own / theirs)] if own < least * theirs else []
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', required=True, help='the strowger binary')
    p.add_argument('--generators', default='sipp,strowger', type=lambda s: s.split(','))
    p.add_argument('--flows', default=','.join(FLOWS), type=lambda s: s.split(','))
    p.add_argument('--rates', type=numbers, help='calls a second of both [default: 1000,4000; emulated: 500]')
    p.add_argument('--high', type=numbers, default=[5000, 28000], help='near what SIPp and Strowger can make')
    p.add_argument('--high-register', type=numbers, default=[11000, 40000], help='registrations a second, likewise')
    p.add_argument('--seconds', type=float, default=4, help='length of the window')
    p.add_argument('--warm-up', type=float, default=4)
    p.add_argument('--reps', type=int, default=2)
    p.add_argument('--extra', default='', help='further options of strowger load, separated by blanks')
    p.add_argument('--emulated', action='store_true', help='in the emulated machine: one processor, the common rates once')
    p.add_argument('--judge', action='store_true', help='exit with 1 if a goal is missed or was not measured')
    o = p.parse_args()
    o.bin, o.cpus = os.path.abspath(o.bin), (None, None) if o.emulated else (0, 1)
    o.rates = o.rates or ([500] if o.emulated else [1000, 4000])
    if not shutil.which('sipp'):
        print('missing: sipp (apt-get install sip-tester)')
        return 2
    found, memories = {}, []
    for rep in range(1 if o.emulated else o.reps):
        for flow in o.flows:
            order = o.generators if rep % 2 == 0 else o.generators[::-1]
            plan = [(name, rate) for rate in o.rates for name in order]
            plan += zip(('sipp', 'strowger'), o.high if flow == 'call' else o.high_register) if not o.emulated else []
            for name, rate in plan:
                calls = measure(o, flow, name, rate)
                if calls:
                    found.setdefault((flow, name, rate), []).append(calls)
        memories += [calls for calls in [in_memory(o)] if calls]
    best = {key: statistics.median(values) for key, values in found.items()}
    wrong = judged(o, best, statistics.median(memories) if memories else None)
    for text in wrong:
        print('MISSED: ' + text)
    return 1 if wrong and o.judge else 0


if __name__ == '__main__':
    sys.exit(main())
