#!/usr/bin/env python3
"""What a call costs `strowger balance`, Kamailio's dispatcher and a bare relay, and the time that each adds.

    verify/bench/balance.py --bin target/release/strowger [--reps 3] [--rate 1000] [--count emulated]

The calls are those of bench.py's proxy200, in front of two callees that answer by themselves; one worker on one core,
the generator on the other. Kamailio has verify/bench/kamailio_dispatch.cfg: the hash of the Call-ID, in the path of
dialogs. Two tables: CPU microseconds (and instructions where this machine or an emulated one can count them) of a
call, a window that begins when the balancer has begun to forget the first calls; and the time from INVITE to the
first response at `--latency-rate` calls a second, beside that of the same calls without anything in between. As root,
and with tcpdump, a third: for how long each holds a call's INVITE and first response, from a capture (transit.py), once
it forgets calls as fast as they come; where there is that one, it is what is judged.

The last lines are a verdict on the two goals, which verdicts.py has: instructions of a call beside Kamailio's, and what
is added to p99. With --judge the exit status is 1 if one of them is not reached, or was not measured; else only if calls
failed.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import bench  # noqa: E402  (after the path is set)
import transit  # noqa: E402
import verdicts  # noqa: E402
from emulated import machines  # noqa: E402
from harness import load, net  # noqa: E402

# Seconds after which a balancer forgets calls as fast as they come (RFC 3261 timer H and some).
FORGETS = 36


def latency(b, name, rate, seconds):
    """Microseconds from INVITE to the first response, and the share of the server's core."""
    callee = (net.fresh_ip(), 5060)
    caller = (callee[0], 5061)
    if name == 'nothing':
        return through(b, None, callee, callee, rate, seconds)
    server = bench.Relay(b.relay, caller, callee, b.server_cpu) if name == 'relay' else b.balancer(name, [callee])
    # Who remembers calls forgets them as fast as they come only when the first ones are old: that is not for nothing.
    warm_up = 1.0 if name == 'relay' else b.o.latency_warm_up
    with server:
        return through(b, server, server.address, callee, rate, seconds, warm_up)


def generator(b, remote, callee, rate, seconds):
    # Every message by itself: what leaves together is late by waiting for each other.
    return load.Load(b.o.bin, 'caller.xml', remote, callee='callee.xml', ip=callee[0], cpu=b.load_cpu, rate=rate,
                     calls=int(rate * seconds), rows=bench.rows('proxy200', 0)[:1000], keys=[('domain', bench.DOMAIN)],
                     extra=['--grain', '0'])


def through(b, server, remote, callee, rate, seconds, warm_up=1.0):
    """The second of two runs through the same server: the first one touches its memory."""
    real_time(b, server.process if server else None)
    generator(b, remote, callee, rate, warm_up).wait(60 + warm_up)
    calls = generator(b, remote, callee, rate, seconds + 1)
    real_time(b, calls.process)
    try:
        time.sleep(0.5)
        before = bench.cpu_ns(server.process.pids()) if server else 0
        time.sleep(seconds)
        spent = bench.cpu_ns(server.process.pids()) - before if server else 0
        status = calls.wait(60)
    finally:
        calls.stop()
    sums, found = calls.totals(), calls.latency('response')
    trouble = '' if status is not None and sums['failed'] == 0 else '  TROUBLE: %s' % sums
    return dict(p50=found['p50'], p90=found['p90'], p99=found['p99'], core=spent / (seconds * 1e9), trouble=trouble)


def real_time(b, process):
    """Nothing else that this machine does may take the processor from it, if that was asked for."""
    for pid in process.pids() if process and b.o.fifo else []:
        subprocess.run(['chrt', '-a', '-f', '-p', '10', str(pid)], check=True)


def latencies(b, names):
    rows = {}
    for rep in range(b.o.latency_reps):
        for name in names if rep % 2 == 0 else names[::-1]:
            rows.setdefault(name, []).append(latency(b, name, b.o.latency_rate, 2.0))
    print('\nINVITE to first response at %d calls/s, microseconds; medians of %d windows' % (b.o.latency_rate, b.o.latency_reps))
    print('%-10s %8s %8s %8s %10s %10s %10s %8s' % (
        'between', 'p50', 'p90', 'p99', 'added p50', 'added p90', 'added p99', 'core'))
    med = lambda name, key: statistics.median(r[key] for r in rows[name])
    for name in names:
        added = [med(name, key) - med('nothing', key) for key in ('p50', 'p90', 'p99')]
        print('%-10s %8.0f %8.0f %8.0f %10.0f %10.0f %10.0f %7.0f%%%s' % (
            name, med(name, 'p50'), med(name, 'p90'), med(name, 'p99'), *added, 100 * med(name, 'core'),
            ''.join(r['trouble'] for r in rows[name])))
    said = ['the time that the balancer adds: not measured']
    if 'strowger' in rows:
        said = verdicts.added(med('strowger', 'p99'), med('nothing', 'p99'))
    return any(r['trouble'] for rs in rows.values() for r in rs), said


def hold(b, name, rate, windows):
    """Sorted microseconds for which it holds INVITE and first response of each call; a list for each window."""
    callee = (net.fresh_ip(), 5060)
    caller = (callee[0], 5061)
    server = bench.Relay(b.relay, caller, callee, b.server_cpu) if name == 'relay' else b.balancer(name, [callee])
    found = []
    with server:
        generator(b, server.address, callee, rate, FORGETS).wait(FORGETS + 60)
        for _ in range(windows):
            calls = generator(b, server.address, callee, rate, 4)
            try:
                time.sleep(1)
                with transit.Capture(server.address, os.path.join(b.dir, 'transit.pcap')) as capture:
                    time.sleep(2)
                status = calls.wait(60)
            finally:
                calls.stop()
            failed = calls.totals()['failed'] if status is not None else 'all'
            found.append(dict(added=capture.added(), lost=capture.dropped(), failed=failed))
    return found


def holds(b, names):
    """The table of them. Whether anything went wrong, and Strowger's 99th percentile."""
    why = transit.missing()
    if why:
        print('\nHow long each holds a call is not measured: %s.' % why)
        return False, None
    rows = {name: [] for name in names}
    for turn in range(2):
        for name in names[::-1] if turn else names:
            rows[name] += hold(b, name, b.o.latency_rate, (b.o.latency_reps + 1) // 2)
    print('\nHow long it holds INVITE and first response of a call at %d calls/s, microseconds, by a capture;' % b.o.latency_rate)
    print('medians of windows of two seconds (least - most)')
    print('%-10s %8s %8s %8s %18s %8s' % ('server', 'p50', 'p90', 'p99', 'p99', 'calls'))
    trouble, ours = False, None
    for name in names:
        windows = [w for w in rows[name] if w['added']]
        at = lambda w, part: w['added'][int(len(w['added']) * part)]
        if not windows:
            print('%-10s nothing was captured' % name)
            trouble = True
            continue
        p50, p90, p99 = ([at(w, part) for w in windows] for part in (0.5, 0.9, 0.99))
        ours = statistics.median(p99) if name == 'strowger' else ours
        failed = [w['failed'] for w in rows[name] if w['failed']]
        print('%-10s %8.0f %8.0f %8.0f %18s %8d%s%s' % (
            name, statistics.median(p50), statistics.median(p90), statistics.median(p99), '%d - %d' % (min(p99), max(p99)),
            sum(len(w['added']) for w in windows), '  %d packets not captured' % sum(w['lost'] for w in windows)
            if any(w['lost'] for w in windows) else '', '  TROUBLE: failed %s' % failed if failed else ''))
        trouble |= bool(failed)
    return trouble, ours


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='strowger,kamailio,relay', type=lambda s: s.split(','))
    p.add_argument('--rate', type=int, default=1000, help='calls a second of the costs')
    p.add_argument('--latency-rate', type=int, default=3000, help='calls a second of the times')
    p.add_argument('--latency-reps', type=int, default=7, help='windows of the times; 0: none')
    p.add_argument('--latency-warm-up', type=float, default=1, metavar='SECONDS',
                   help='of the same calls through a balancer before the times are measured: it remembers a call for 32 s')
    p.add_argument('--busy-poll', metavar='TIME', help='the times also of strowger with this busy_poll, such as 200us: "busy"')
    p.add_argument('--fifo', action='store_true', help='measure the times under real-time scheduling (root, chrt)')
    p.add_argument('--seconds', type=float, default=5, help='length of a window')
    p.add_argument('--reps', type=int, default=3, help='of the costs; 0: none')
    p.add_argument('--generator', default='load', choices=('load', 'sipp'), help='what makes the calls')
    p.add_argument('--count', default='auto', choices=('auto', 'perf', 'emulated', 'no'), help='as of bench.py')
    p.add_argument('--judge', action='store_true', help='exit with 1 also if a goal is not reached, or not measured')
    o = p.parse_args()
    o.bin, o.workloads = os.path.abspath(o.bin), ['balance']
    b = bench.Bench(o)
    emulated = o.count == 'emulated' or (o.count == 'auto' and not b.perf)
    b.perf = b.perf and o.count in ('auto', 'perf')
    b.run()
    trouble = any('trouble' in r for r in b.results)
    if b.results:
        bench.table(bench.summary(b.results))
    slow, counts = ['the time that the balancer adds: not measured'], bench.summary(b.results)
    if o.latency_reps:
        os.makedirs(b.dir, exist_ok=True)
        if 'relay' in o.servers and shutil.which('cc'):
            b.relay = b.relay_program()
        busy = ['busy'] if o.busy_poll and 'strowger' in o.servers else []
        names = [n for n in o.servers if b.available(n)] + busy
        late, slow = latencies(b, ['nothing'] + names)
        held_late, held = holds(b, names)
        trouble |= late or held_late
        slow = verdicts.added(held, 0) if held is not None else slow
        shutil.rmtree(b.dir, ignore_errors=True)
    if emulated:
        counts = machines.count(o)
        machines.table(counts)
        trouble |= not counts or any('trouble' in r for r in counts)
    kept = verdicts.tell('the balancer', verdicts.cost(counts) + slow)
    return 1 if trouble or (o.judge and not kept) else 0


if __name__ == '__main__':
    sys.exit(main())
