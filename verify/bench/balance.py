#!/usr/bin/env python3
"""What a call costs `strowger balance`, Kamailio's dispatcher and a bare relay, and the time that each adds.

    verify/bench/balance.py --bin target/release/strowger [--reps 3] [--rate 1000] [--count emulated] [--quick]

The calls are those of bench.py's proxy200, in front of two callees that answer by themselves; one worker on one core,
the generator on the other. Kamailio has verify/bench/kamailio_dispatch.cfg: the hash of the Call-ID, in the path of
dialogs. First CPU microseconds (and instructions where this machine or an emulated one can count them) of a
call, a window that begins when the balancer has begun to forget the first calls.

Times are measured at half load: at the rate that takes half of Strowger's core, which is looked for first (processor time
at a rate, once calls are forgotten as fast as they come; a call costs the less the more there are, so all of the core is
good for twice that rate at least). One table is what callers see, from INVITE to the first response. The other, as root and
with tcpdump, is for how long each server itself holds a call's INVITE and first response, from a capture (transit.py), once
it forgets calls as fast as they come: of Strowger with and without busy_poll ("busy"), and of the others at the same rate.
That one is judged, and nothing else in its place; Kamailio and the relay may be past their end there, which is said.

The last lines are a verdict on the two goals, which verdicts.py has: instructions of a call beside Kamailio's, and the time
that the balancer holds a call, p99. With --judge the exit status is 1 if one of them is not reached, or was not measured;
else only if calls failed.
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

# Whose failed calls are a failure of the bench; the others may be past their end.
OURS = ('nothing', 'strowger', 'busy')
# Seconds after which a balancer forgets calls as fast as they come (RFC 3261 timer H and some).
FORGETS = 36
# The search for half load: where it begins, how near the share of the core must come, how often, and calls a second at most
# that the generator, which is both ends on one core, is asked for.
FIRST, NEAR, STEPS, MOST = 7000, 0.03, 4, 30000
# Seconds that calls have to end: of ours, and of who may be past its end, where many never do.
PATIENCE, SHORT = 60, 8


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
        return through(b, server, server.address, callee, rate, seconds, warm_up, PATIENCE if name in OURS else SHORT)


def generator(b, remote, callee, rate, seconds):
    # Every message by itself: what leaves together is late by waiting for each other.
    return load.Load(b.o.bin, 'caller.xml', remote, callee='callee.xml', ip=callee[0], cpu=b.load_cpu, rate=rate,
                     calls=int(rate * seconds), rows=bench.rows('proxy200', 0)[:1000], keys=[('domain', bench.DOMAIN)],
                     extra=['--grain', '0'])


def through(b, server, remote, callee, rate, seconds, warm_up=1.0, patience=PATIENCE):
    """The second of two runs through the same server: the first one touches its memory."""
    real_time(b, server.process if server else None)
    generator(b, remote, callee, rate, warm_up).wait(warm_up + patience)
    calls = generator(b, remote, callee, rate, seconds + 1)
    real_time(b, calls.process)
    try:
        time.sleep(0.5)
        before = bench.cpu_ns(server.process.pids()) if server else 0
        time.sleep(seconds)
        spent = bench.cpu_ns(server.process.pids()) - before if server else 0
        status = calls.wait(patience)
    finally:
        calls.stop()
    sums, found = calls.totals(), calls.latency('response')
    trouble = '' if status is not None and sums['failed'] == 0 else '  TROUBLE: %s' % sums
    return dict(p50=found['p50'], p90=found['p90'], p99=found['p99'], core=spent / (seconds * 1e9), trouble=trouble)


def half_load(b):
    """Calls a second that take half of Strowger's core. Whether calls failed."""
    rate, failed = FIRST, 0
    for _ in range(2 if b.o.quick else STEPS):
        share, failed = share_at(b, rate)
        print('strowger at %d calls/s: %.0f %% of its core%s' % (
            rate, 100 * share, '  TROUBLE: failed %s' % failed if failed else ''), flush=True)
        if abs(share - 0.5) <= NEAR or failed:
            break
        # By no more than twice at a time: where it is idle the share says little.
        rate = int(min(rate * min(max(0.5 / share, 0.5), 2), MOST)) // 100 * 100
    return rate, bool(failed)


def share_at(b, rate):
    """The share of its core that Strowger takes at that rate, and calls that failed."""
    callee, window = (net.fresh_ip(), 5060), 4.0
    with b.balancer('strowger', [callee]) as server:
        calls = generator(b, server.address, callee, rate, b.o.forgets + window + 1)
        try:
            time.sleep(b.o.forgets)
            before, begun = bench.cpu_ns(server.process.pids()), time.monotonic()
            time.sleep(window)
            share = (bench.cpu_ns(server.process.pids()) - before) / (1e9 * (time.monotonic() - begun))
            status = calls.wait(PATIENCE)
        finally:
            calls.stop()
        return share, calls.totals()['failed'] if status is not None else 'all'


def real_time(b, process):
    """Nothing else that this machine does may take the processor from it, if that was asked for."""
    for pid in process.pids() if process and b.o.fifo else []:
        subprocess.run(['chrt', '-a', '-f', '-p', '10', str(pid)], check=True)


def latencies(b, names):
    rows = {}
    for rep in range(b.o.latency_reps):
        for name in names if rep % 2 == 0 else names[::-1]:
            rows.setdefault(name, []).append(latency(b, name, b.o.latency_rate, 2.0))
    print('\nINVITE to first response at %d calls/s as callers see it, microseconds; medians of %d windows' % (
        b.o.latency_rate, b.o.latency_reps))
    print('%-10s %8s %8s %8s %8s' % ('between', 'p50', 'p90', 'p99', 'core'))
    med = lambda name, key: statistics.median(r[key] for r in rows[name])
    for name in names:
        print('%-10s %8.0f %8.0f %8.0f %7.0f%%%s' % (
            name, med(name, 'p50'), med(name, 'p90'), med(name, 'p99'), 100 * med(name, 'core'),
            ''.join(r['trouble'] for r in rows[name])))
    return any(r['trouble'] for name in OURS for r in rows.get(name, ()))


def hold(b, name, rate, windows):
    """For each window sorted microseconds for which it holds INVITE and first response of each call."""
    callee = (net.fresh_ip(), 5060)
    caller = (callee[0], 5061)
    server = bench.Relay(b.relay, caller, callee, b.server_cpu) if name == 'relay' else b.balancer(name, [callee])
    found = []
    with server:
        # The relay remembers nothing.
        warm_up, patience = 2 if name == 'relay' else b.o.forgets, PATIENCE if name in OURS else SHORT
        generator(b, server.address, callee, rate, warm_up).wait(warm_up + patience)
        for _ in range(windows):
            with transit.Capture(server.address, b.dir) as capture:
                calls = generator(b, server.address, callee, rate, 4)
                try:
                    time.sleep(1)
                    before, begun = bench.cpu_ns(server.process.pids()), time.monotonic()
                    capture.start()
                    time.sleep(2)
                    core = (bench.cpu_ns(server.process.pids()) - before) / (1e9 * (time.monotonic() - begun))
                    window = capture.stop()
                    ended = calls.wait(patience) is not None
                finally:
                    calls.stop()
            failed = calls.totals()['failed'] if ended else 'not all ended'
            found.append(dict(added=window.added(), lost=window.dropped(), failed=failed, core=core))
    return found


def holds(b, names):
    """The table of them. Whether anything went wrong with Strowger, and what verdicts.added judges."""
    why = transit.missing()
    if why:
        print('\nHow long each holds a call is not measured: %s.' % why)
        return False, {}
    rows = {name: [] for name in names}
    for turn in range(2):
        for name in names[::-1] if turn else names:
            rows[name] += hold(b, name, b.o.latency_rate, (b.o.hold_reps + 1) // 2)
    print('\nHow long it holds INVITE and first response of a call at %d calls/s, microseconds, by a capture;' % b.o.latency_rate)
    print('medians of windows of two seconds (least - most)')
    print('%-10s %8s %8s %8s %18s %8s %8s' % ('server', 'p50', 'p90', 'p99', 'p99', 'core', 'calls'))
    trouble, found = False, {}
    for name in names:
        found[name] = held(name, rows[name])
        trouble |= name in OURS and (not found[name] or any(w['failed'] for w in rows[name]))
    return trouble, found


def held(name, windows):
    """One line of that table; p99 and the share of the core, or `None` if nothing was captured."""
    whole = [w for w in windows if w['added']]
    failed = [w['failed'] for w in windows if w['failed']]
    said = '  failed: %s' % failed if failed else ''
    if not whole:
        print('%-10s nothing was captured%s' % (name, said))
        return None
    p50, p90, p99 = ([w['added'][int(len(w['added']) * part)] for w in whole] for part in (0.5, 0.9, 0.99))
    core, lost = statistics.median(w['core'] for w in whole), sum(w['lost'] for w in windows)
    print('%-10s %8.0f %8.0f %8.0f %18s %7.0f%% %8d%s%s' % (
        name, *(statistics.median(p) for p in (p50, p90, p99)), '%d - %d' % (min(p99), max(p99)), 100 * core,
        sum(len(w['added']) for w in whole), '  %d packets not captured' % lost if lost else '', said))
    return dict(p99=statistics.median(p99), core=core, calls=sum(len(w['added']) for w in whole))


def times(b):
    """The search for half load and both tables. Whether anything went wrong, and what was held."""
    os.makedirs(b.dir, exist_ok=True)
    if 'relay' in b.o.servers and shutil.which('cc'):
        b.relay = b.relay_program()
    names = [n for n in b.o.servers if b.available(n)]
    names += ['busy'] if b.o.busy_poll and 'strowger' in names else []
    late = False
    if not b.o.latency_rate:
        print()
        b.o.latency_rate, late = half_load(b)
    late |= latencies(b, ['nothing'] + names) if b.o.latency_reps else False
    worse, found = holds(b, names) if b.o.hold_reps else (False, {})
    shutil.rmtree(b.dir, ignore_errors=True)
    return late or worse, found


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='strowger,kamailio,relay', type=lambda s: s.split(','))
    p.add_argument('--rate', type=int, default=1000, help='calls a second of the costs')
    p.add_argument('--latency-rate', type=int, help='calls a second of the times, in place of half load')
    p.add_argument('--latency-reps', type=int, default=3, help='windows of the times that callers see; 0: none')
    p.add_argument('--hold-reps', type=int, default=6, help='windows of the times that servers hold a call; 0: none')
    p.add_argument('--latency-warm-up', type=float, default=1, metavar='SECONDS',
                   help='of the same calls through a balancer before the times are measured: it remembers a call for 32 s')
    p.add_argument('--busy-poll', metavar='TIME', default='200us', help='the times also of strowger with this busy_poll: "busy"; \'\': not')
    p.add_argument('--quick', action='store_true', help='the times after two seconds in place of 36: to see that it works, not for figures')
    p.add_argument('--fifo', action='store_true', help='measure the times under real-time scheduling (root, chrt)')
    p.add_argument('--seconds', type=float, default=5, help='length of a window')
    p.add_argument('--reps', type=int, default=3, help='of the costs; 0: none')
    p.add_argument('--generator', default='load', choices=('load', 'sipp'), help='what makes the calls')
    p.add_argument('--count', default='auto', choices=('auto', 'perf', 'emulated', 'no'), help='as of bench.py')
    p.add_argument('--judge', action='store_true', help='exit with 1 also if a goal is not reached, or not measured')
    o = p.parse_args()
    o.bin, o.workloads, o.forgets = os.path.abspath(o.bin), ['balance'], 2 if o.quick else FORGETS
    b = bench.Bench(o)
    emulated = o.count == 'emulated' or (o.count == 'auto' and not b.perf)
    b.perf = b.perf and o.count in ('auto', 'perf')
    b.run()
    trouble = any('trouble' in r for r in b.results)
    if b.results:
        bench.table(bench.summary(b.results))
    counts, found = bench.summary(b.results), {}
    if o.latency_reps or o.hold_reps:
        late, found = times(b)
        trouble |= late
    if emulated:
        counts = machines.count(o)
        machines.table(counts)
        trouble |= not counts or any('trouble' in r for r in counts)
    kept = verdicts.tell('the balancer', verdicts.cost(counts) + verdicts.added(found), verdicts.holds(found))
    return 1 if trouble or (o.judge and not kept) else 0


if __name__ == '__main__':
    sys.exit(main())
