#!/usr/bin/env python3
"""The experiments of the load balancer's paper on real sockets: response times, peaks, scaling, unequal servers, occupancy.

    verify/bench/balance_paper.py --bin target/release/strowger [--quick] [--only NAME,...] [--algorithms NAME,...]

The paper is Jiang and others, "Design, Implementation, and Performance of a Load Balancer for SIP Server Clusters"
(IEEE/ACM Transactions on Networking, 2012), section VI. Its servers are `strowger load --backend`: 300 calls/s each, an
INVITE 1.75 times a BYE, up to four requests sharing a processor; where an experiment has stalls, a server stands still
for a second about every 40 s, at the same times for every algorithm, and a request that is repeated because of that
costs half of a BYE (--repeat-cost). Both are guesses; the paper says nothing of either. The callers are `strowger load`: calls begin at
random (Poisson) and last a second on average (normal, half a second of deviation), where the paper's last a minute, so
that a trial is at its level after --warm-up seconds. `strowger balance` has one worker and does none of what the paper's
balancer did not do: it moves no INVITE from a silent server (silent_after = 0), ejects nobody, and takes no server for
down; --defaults leaves that on.

A peak is the highest rate, in steps of 5 % of the ideal, at which at most one request in 10,000 fails or takes longer
than 0.5 s, or 1.5 s where servers stall. The ideal is the highest rate tried: a queue grows slowly there, and a trial
is short. So is it for stalls: which algorithm meets how many of them is the same for all, and decides where they stop;
--seeds 1,2,3 asks for three trials that conform.

A trial whose generator or back ends were late (p99.9 beyond --lateness, five times that where only such long times
count), or lost datagrams, is void and made again, at most twice. Results
are kept in --state, experiment by experiment and point by point, and the page and the table are made of all that is
there: so experiments may be run one by one. `--show` makes them again without running anything.

The last lines are a verdict on what was asked of it (verdicts.py): the peak of tlwl beside hash's, INVITEs of hash beside
those of tlwl and of tjsq at moderate and high load, unequal servers, scaling; what is void or missing is not kept. With --judge the exit
status is 1 then. Before it stand, not judged, how many of hash's requests were bad at each load, for at high load it is
beyond its peak, and how it compares at the highest load that it carries. A peak that is the ideal is "at least" so much.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import balance_paper_page  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402
from harness import net, servers  # noqa: E402

CAPACITY, STALL = 300, '40s,1s'
# A request that takes longer counts as failed, milliseconds: where servers stall, and where they do not.
SLOW_MS = {True: 1500, False: 500}
STALLING = ('response', 'peaks', 'occupancy')
ALGORITHMS = ('tlwl', 'tjsq', 'cjsq', 'round-robin', 'hash', 'fnv-hash', 'rwma')
PAPER_ONLY = '''[balance]
silent_after = 0
probe_interval = "1h"
down_after = 100
outlier_share = 0
'''


# ---------------------------------------------------------------- one trial
class Backends:
    """All servers of a trial: one process, one address each."""

    def __init__(self, o, capacities, seed, stalls):
        self.path = os.path.join(o.scratch, 'backends.json')
        self.addresses = o.addresses[:len(capacities)]
        cmd = [o.bin, 'load', '--backend', '-i', ','.join(self.addresses), '-p', '5060', '--seed', str(seed),
               '--capacity', ','.join('%g' % c for c in capacities), '--grain', str(o.grain), '--json', self.path, '--quiet',
               '--repeat-cost', '%g' % o.repeat_cost]
        cmd += ['--stall', STALL] if stalls else []
        self.process = servers.Process(cmd)
        net.poll('the back ends are ready', 20, lambda: self.process.said('ready') or not self.process.running())
        if not self.process.running():
            raise AssertionError('the back ends did not start:\n' + self.process.log())

    def report(self):
        self.process.stop()
        with open(self.path) as f:
            return json.load(f)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stop()


def scenario(o):
    """The built-in caller, with calls of a length that varies."""
    path = os.path.join(o.scratch, 'caller.xml')
    if not os.path.exists(path):
        text = subprocess.run([o.bin, 'load', '-sd', 'uac'], stdout=subprocess.PIPE, text=True, check=True).stdout
        pause = '<pause distribution="normal" mean="%d" stdev="%d"/>' % (o.hold * 1000, o.hold * 500)
        assert '<pause/>' in text
        with open(path, 'w') as f:
            f.write(text.replace('<pause/>', pause))
    return path


def callers(o, target, rate, seconds, seed, lateness):
    """Calls through the balancer; the generator's report."""
    path = os.path.join(o.scratch, 'callers.json')
    if os.path.exists(path):
        os.unlink(path)
    calls = int(rate * (o.warm_up + seconds))
    cmd = [o.bin, 'load', '%s:%d' % target, '-sf', scenario(o), '-i', o.caller, '--workers', '1', '--poisson',
           '-r', '%g' % rate, '-m', str(calls), '--warm-up', '%g' % o.warm_up, '--seed', str(seed), '--quiet',
           '--grain', str(o.grain), '--lateness', str(lateness), '--ladders', '1', '--json', path]
    process = servers.Process(cmd)
    try:
        process.proc.wait(o.warm_up + seconds + 60)
    finally:
        process.stop()
    if not os.path.exists(path):
        raise AssertionError('the callers have no report:\n' + process.log())
    with open(path) as f:
        return json.load(f)


def trial(o, algorithm, capacities, rate, seconds, seed=1, stalls=False, lateness=None):
    """What came of these calls; again where something of ours was late."""
    best = None
    for _ in range(3):
        one = once(o, algorithm, capacities, rate, seconds, seed, stalls, lateness or o.lateness)
        if best is None or (one['void'], one['late_ms']) < (best['void'], best['late_ms']):
            best = one
        if not one['void']:
            break
    said = ' VOID: late %.1f ms, %d datagrams lost by the back ends; %s' % (
        best['late_ms'], best['drops'], ', '.join(best['why'])) if best['void'] else ''
    print('  %-12s %4d calls/s: INVITE %8.2f ms, BYE %8.2f ms, %.4f %% failed or slow, late %.1f ms%s' % (
        algorithm, rate, best['invite_ms'], best['bye_ms'], 100 * best['bad'], best['late_ms'], said), flush=True)
    return best


def once(o, algorithm, capacities, rate, seconds, seed, stalls, lateness):
    with Backends(o, capacities, seed, stalls) as backends:
        nodes = ['%s:5060' % address for address in backends.addresses]
        balancer = servers.Balancer(o.bin, nodes, 1, algorithm, '' if o.defaults else PAPER_ONLY, ip=o.front)
        try:
            balancer.start()
            report = callers(o, balancer.address, rate, seconds, seed, lateness)
            page = balancer.page()
        finally:
            if balancer.process:
                balancer.process.kill()
            balancer.__exit__()
        ends = backends.report()
    return dict(figures(report, ends, page, stalls, lateness), algorithm=algorithm, rate=rate, seed=seed)


def figures(report, ends, page, stalls, lateness):
    latency = lambda key: next(l['sent'] for l in report['latencies'] if l['key'] == key)
    invite, bye, measured = latency('setup'), latency('sdd'), report['measured']
    begun, good = measured.get('calls.begun', 0), measured.get('calls.succeeded', 0)
    slow = sum(n for d in (invite, bye) for upper, n in d['buckets'] if upper > SLOW_MS[stalls] * 1000)
    found = {}
    for node, at, count in re.findall(r'strowger_balance_occupancy_total\{node="([^"]*)",found="(\d+)"\} (\d+)', page):
        found[int(at)] = found.get(int(at), 0) + int(count)
    own = [c['name'] for c in report['verdict']['checks'] if c['of_generator'] and not c['kept']]
    if any(n['full'] for n in ends['nodes']):
        own.append('back ends that could remember no more')
    late = max(report['lateness']['p999'], ends['late_p999']) / 1000.0
    return dict(
        calls=begun, void=bool(own) or late > lateness or ends['drops'] > 0, why=own,
        late_ms=late, invite_ms=invite['mean'] / 1000.0, bye_ms=bye['mean'] / 1000.0,
        invite_p50_ms=invite['p50'] / 1000.0, invite_p99_ms=invite['p99'] / 1000.0, failed=begun - good, slow=slow,
        bad=(begun - good + slow) / max(2.0 * begun, 1.0),
        occupancy=[found.get(n, 0) for n in range(max(found, default=0) + 1)],
        shares=[n['invites'] for n in ends['nodes']], refused=sum(n['refused'] for n in ends['nodes']),
        repeated=sum(n['repeated'] for n in ends['nodes']),
        model_invite_ms=1000 * sum(n['invite_seconds'] * n['invites'] for n in ends['nodes']) /
        max(sum(n['invites'] for n in ends['nodes']), 1), drops=ends['drops'])


def peak(o, algorithm, capacities, stalls, seeds):
    """The highest rate that conforms, and all trials."""
    ideal, tried = sum(capacities), []

    def conforms(step):
        for seed in seeds:
            # Stalls are rare.
            seconds = o.seconds * 2 if stalls else o.seconds
            one = trial(o, algorithm, capacities, ideal * step / 20.0, seconds, seed, stalls, o.lateness * 5)
            tried.append(one)
            if one['bad'] > verdicts.ALLOWED:
                return False
        return True

    low, high = 0, 20
    if conforms(high):
        low = high
    while high - low > 1:
        # The first step down is a small one: most are near the ideal.
        middle = (low + high) // 2 if low or high < 20 else 16
        if conforms(middle):
            low = middle
        else:
            high = middle
    return dict(algorithm=algorithm, nodes=len(capacities), ideal=ideal, peak=ideal * low / 20.0, trials=tried)


# ---------------------------------------------------------------- the experiments
def response(o, keep):
    for load in o.loads:
        for algorithm in o.algorithms:
            one = trial(o, algorithm, [CAPACITY] * 8, load * 8 * CAPACITY, o.seconds * 3, stalls=True)
            keep('response', '%s %g' % (algorithm, load), dict(one, load=load))


def quiet(o, keep):
    for load in o.loads[-2:]:
        for algorithm in o.algorithms:
            one = trial(o, algorithm, [CAPACITY] * 8, load * 8 * CAPACITY, o.seconds)
            keep('quiet', '%s %g' % (algorithm, load), dict(one, load=load))


def peaks(o, keep):
    for algorithm in o.algorithms:
        keep('peaks', algorithm, peak(o, algorithm, [CAPACITY] * 8, True, o.seeds))


def scale(o, keep):
    for nodes in o.nodes:
        keep('scale', str(nodes), peak(o, 'tlwl', [CAPACITY] * nodes, False, (1,)))


def unequal(o, keep):
    for algorithm in [a for a in ('tlwl', 'tjsq', 'round-robin', 'hash') if a in o.algorithms]:
        found = peak(o, algorithm, [CAPACITY, CAPACITY / 2], False, (1,))
        # Below what everybody can do, as the paper's figure 15 shows it.
        found['at_280'] = trial(o, algorithm, [CAPACITY, CAPACITY / 2], 280, o.seconds)
        keep('unequal', algorithm, found)


def occupancy(o, keep):
    for algorithm in [a for a in ('fnv-hash', 'round-robin', 'tjsq', 'tlwl') if a in o.algorithms]:
        keep('occupancy', algorithm, trial(o, algorithm, [CAPACITY] * 4, 600, o.seconds * 2, stalls=True))


EXPERIMENTS = dict(response=response, peaks=peaks, scale=scale, unequal=unequal, occupancy=occupancy, quiet=quiet)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    words = lambda text: text.split(',')
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--only', type=words, default=None, help='of ' + ', '.join(EXPERIMENTS))
    p.add_argument('--algorithms', type=words, default=None)
    p.add_argument('--loads', type=lambda text: [float(x) for x in text.split(',')], default=None, help='of the ideal')
    p.add_argument('--nodes', type=lambda text: [int(x) for x in text.split(',')], default=None)
    p.add_argument('--seeds', type=lambda text: [int(x) for x in text.split(',')], default=None, help='of the peaks')
    p.add_argument('--seconds', type=float, default=None, help='a trial is measured for so long, or twice or three times that where servers stall (default 15 there, 5 elsewhere)')
    p.add_argument('--warm-up', type=float, default=None, help='before that (default 6 where servers stall, 3 elsewhere)')
    p.add_argument('--repeat-cost', type=float, default=0.5, help='of a repeated request, beside a BYE')
    p.add_argument('--hold', type=float, default=1.0, help='mean length of a call, seconds')
    p.add_argument('--grain', type=float, default=0.2, help='of callers and back ends, milliseconds')
    p.add_argument('--lateness', type=float, default=20.0, help='that makes a trial void, milliseconds')
    p.add_argument('--defaults', action='store_true', help="with the balancer's own defaults")
    p.add_argument('--quick', action='store_true', help='few points and short trials: seven minutes in place of 70')
    p.add_argument('--state', default='target/balance-paper.json', help='where results are kept')
    p.add_argument('--fresh', action='store_true', help='forget what is kept there')
    p.add_argument('--show', action='store_true', help='run nothing')
    p.add_argument('--judge', action='store_true', help='exit with 1 if a goal is not reached, or not measured')
    p.add_argument('--record', default='lab/record', help='where the page, the table and the figures are written')
    o = p.parse_args()
    settle(o)
    state = {} if o.fresh else balance_paper_page.read(o.state)

    def keep(experiment, point, result):
        result['seconds'] = o.seconds
        # Without stalls nothing is repeated.
        variant = 'defaults' if o.defaults else 'repeats' if o.repeat_cost and experiment in STALLING else 'paper'
        state.setdefault(variant, {}).setdefault(experiment, {})[point] = result
        balance_paper_page.save(o.state, state)

    given = o.seconds, o.warm_up
    for name in [] if o.show else o.only:
        o.seconds, o.warm_up = (g if g is not None else d for g, d in zip(given, lengths(o, name)))
        print('%s (%s)' % (name, time.strftime('%H:%M:%S')), flush=True)
        EXPERIMENTS[name](o, keep)
    balance_paper_page.write(o.record, state)
    shutil.rmtree(o.scratch, ignore_errors=True)
    kept = verdicts.tell('the experiments', verdicts.paper(state), verdicts.beside_hash(state))
    return 1 if o.judge and not kept else 0


def lengths(o, experiment):
    """Seconds that a trial of it is measured for, and before that. Stalls are rare: eight servers have six in half a minute."""
    if o.quick:
        return 3.0, 1.5
    return (15.0, 6.0) if experiment in STALLING else (5.0, 3.0)


def settle(o):
    """What follows from the other arguments."""
    o.bin = os.path.abspath(o.bin)
    default = lambda value, full, quick: value if value is not None else (quick if o.quick else full)
    o.algorithms = default(o.algorithms, list(ALGORITHMS), ['tlwl', 'tjsq', 'hash'])
    o.loads = default(o.loads, [0.1, 0.4, 0.8, 0.9], [0.4, 0.8, 0.9])
    o.nodes = default(o.nodes, [1, 2, 4, 8, 10], [1, 8])
    o.seeds = default(o.seeds, [1], [1])
    o.only = o.only or [name for name in EXPERIMENTS if name != 'quiet']
    unknown = [name for name in o.only if name not in EXPERIMENTS]
    if unknown:
        sys.exit('--only %s: there are %s' % (','.join(unknown), ', '.join(EXPERIMENTS)))
    o.scratch = os.path.join('/tmp', 'strowger-paper-%d' % os.getpid())
    os.makedirs(o.scratch, exist_ok=True)
    # One trial after the other has the same ones.
    o.front, o.caller, *o.addresses = [net.fresh_ip() for _ in range(2 + max([8] + o.nodes))]


if __name__ == '__main__':
    sys.exit(main())
