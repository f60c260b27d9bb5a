"""What the benches of the balancer and of the generator were asked to show, and whether their figures show it.

Each function gets figures as its bench has them and returns a list of what is not kept, in words. An empty list is a pass.
`python3 verify/bench/verdicts_test.py` has examples of both.
"""

# What docs/balance.md promises of each experiment of balance_failure.py besides that no call is lost: seconds from the
# fault until every first attempt is answered again; and what it says cannot be kept there.
FAILURES = dict(
    node_killed=dict(back=2.0, ringing=True),
    node_flapping=dict(back=20.0, ringing=True),
    # With no node left callers get 503, and calls that end meanwhile have nobody to tell.
    all_nodes_down=dict(back=13.0, ringing=True, waived=('failed', 'fresh_lost')),
    node_drained=dict(back=0.5),
    balancer_restarted=dict(back=2.0),
    active_one_killed=dict(back=2.0),
    active_none_killed=dict(back=0.5, events=('timed-out', 'retried')),
    standby_process_killed=dict(back=3.0),
    # Callers notice no more than that the address moves, which is done before the balancer ends.
    standby_restarted=dict(back=1.0, alive=True),
    standby_machine_killed=dict(back=2.0),
    # What begins at one and ends at the other the first counts until `session_timeout`.
    standby_split_brain=dict(back=0.5, waived=('left',)),
)


# New calls that may have had a provisional response and then nothing, where nodes fall: those that rang there just then, as
# many as begin at a node in some hundredths of a second. One in so many, these at least and these at most.
RANG, FEWEST_RANG, MOST_RANG = 1000, 3, 10

# Transactions in so many may have been given to another node, or up, where nothing fails: a machine may stand still.
STRAYED = 1000


def failure(r, small=False):
    """Of one experiment of balance_failure.py, a dict of `tell`. `small`: it was short, so that not everything is over,
    and beside other work, so that its times mean nothing."""
    rule = FAILURES[r['name']]
    waived = rule.get('waived', ()) + (('back', 'left') if small else ())
    said = []

    def must(key, good, text):
        if key not in waived and not good:
            said.append(text)

    must('lost', r['lost'] == 0, '%d of %d calls that were up are lost' % (r['lost'], r['standing']))
    must('never_up', r['never_up'] == 0, '%d calls never came up' % r['never_up'])
    must('up', r['up'] > 0, 'no call was up at the fault')
    must('failed', r['failed'] <= r['hung'], '%d new calls failed, of which %d had a provisional response' % (
        r['failed'], r['hung']))
    rang = min(max(r['fresh'] // RANG, FEWEST_RANG), MOST_RANG) if rule.get('ringing') else 0
    must('hung', r['hung'] <= rang, '%d new calls had a provisional response and then nothing (%d)' % (r['hung'], rang))
    must('fresh_lost', r['fresh_lost'] == 0, '%d new calls were lost' % r['fresh_lost'])
    must('left', r['left'] == 0, '%d calls are still counted at the end' % r['left'])
    must('refused', r['refused'] == r['with_retry_after'], '%d of %d 503 have no Retry-After' % (
        r['refused'] - r['with_retry_after'], r['refused']))
    must('probes', r['probes'] > 0, 'no first attempt was made')
    must('back', r['back'] <= rule['back'], 'first attempts failed for %.2f s (%.1f)' % (r['back'], rule['back']))
    if rule.get('alive'):
        must('alive', r.get('alive'), 'the balancer ended before the other had its address')
    # Of two balancers that both have the address: what a node says comes back to the one that asked.
    for event in rule.get('events', ()):
        if event not in r:
            said.append('transactions %s: not known' % event)
        else:
            must(event, r[event] * STRAYED <= r['assigned'], 'transactions %s: %d of %d' % (event, r[event], r['assigned']))
    return said


# Of balance.py: the balancer's instructions of a call beside those of Kamailio's dispatcher, and microseconds that it
# adds to the time until the first response, p99.
MOST_COST, MOST_ADDED = 0.38, 200


def cost(counts):
    """Of the instructions of a call: results of emulated/machines.py, or a summary of bench.py's."""
    of = lambda r: r.get('instructions') or r.get('instructions_call')
    calls = {r['server']: of(r) for r in counts if r['workload'] == 'balance' and of(r)}
    missing = [name for name in ('strowger', 'kamailio') if name not in calls]
    if missing:
        return ['the instructions of a call are not known of %s' % ' and '.join(missing)]
    found = calls['strowger'] / calls['kamailio']
    return [] if found <= MOST_COST else ['a call takes %.3f of the instructions of Kamailio (%.2f)' % (found, MOST_COST)]


def added(p99, nothing):
    """Of the time until the first response through the balancer, and with nothing in between; microseconds."""
    if p99 - nothing <= MOST_ADDED:
        return []
    return ['the balancer adds %.0f us to the first response, p99 (%d)' % (p99 - nothing, MOST_ADDED)]


# Of balance_paper.py.
CAPACITY = 300
ABOVE_HASH, MODERATE, HIGH, UNEQUAL, SCALING = 1.20, 5, 50, 0.95, 0.95


def paper(state):
    """Of what balance_paper.py keeps. What was not measured, or is void, is not shown: that is said, too."""
    return peaks(state) + response(state) + unequal(state) + scaling(state)


def point(state, experiment, name, variants=('repeats', 'paper', 'defaults')):
    """A result that counts, of the first variant that has it."""
    found = [state[v][experiment][name] for v in variants if name in state.get(v, {}).get(experiment, {})]
    void = lambda r: r.get('void') or any(t['void'] for t in r.get('trials', ()))
    return next((r for r in found if not void(r)), None)


def peaks(state):
    tlwl, other = (point(state, 'peaks', name) for name in ('tlwl', 'hash'))
    if not tlwl or not other:
        return ['peaks of tlwl and hash: not measured']
    ratio = tlwl['peak'] / other['peak'] if other['peak'] else float('inf')
    return [] if ratio >= ABOVE_HASH else ['the peak of tlwl is %.2f times that of hash (%.2f)' % (ratio, ABOVE_HASH)]


def response(state):
    said = []
    for name, load, goal in (('moderate', 0.4, MODERATE), ('high', 0.9, HIGH)):
        tlwl, other = (point(state, 'response', '%s %g' % (a, load)) for a in ('tlwl', 'hash'))
        if not tlwl or not other:
            said.append('response times at %s load (%g): not measured' % (name, load))
        elif other['invite_ms'] < goal * tlwl['invite_ms']:
            said.append('at %s load (%g) an INVITE of hash takes %.1f times that of tlwl (%d)' % (
                name, load, other['invite_ms'] / tlwl['invite_ms'], goal))
    return said


def unequal(state):
    found, ideal = point(state, 'unequal', 'tlwl'), 1.5 * CAPACITY
    if not found:
        return ['unequal servers: not measured']
    return [] if found['peak'] >= UNEQUAL * ideal else ['unequal servers give %.0f calls/s of %.0f' % (found['peak'], ideal)]


def scaling(state):
    nodes = sorted({int(n) for variant in state.values() for n in variant.get('scale', {})})
    if len(nodes) < 2:
        return ['scaling: not measured']
    said = []
    for n in nodes:
        found = point(state, 'scale', str(n))
        if not found:
            said.append('scaling to %d servers: not measured' % n)
        elif found['peak'] < SCALING * n * CAPACITY:
            said.append('%d servers give %.0f calls/s of %d' % (n, found['peak'], n * CAPACITY))
    return said


# Of load.py: calls of the generator in a second of processor time beside SIPp's, each at its best: through sockets, and of
# the engine alone, which only calls are asked.
LEAST_SOCKETS, LEAST_MEMORY = 4, 50


def generator(best, alone):
    """`best`: by flow and program; `alone`: of the engine alone, by flow. Calls per CPU second; what is missing or no number
    was not measured."""
    said = []
    of = lambda value: value if value and value == value else None
    for flow in ('call', 'register'):
        theirs = of(best.get((flow, 'sipp')))
        goals = [('over sockets', of(best.get((flow, 'strowger'))), LEAST_SOCKETS)]
        goals += [('in memory', of(alone.get(flow)), LEAST_MEMORY)] if flow == 'call' else []
        for where, ours, least in goals:
            if not theirs or not ours:
                said.append('%s, %s: not measured' % (flow, where))
            elif ours < least * theirs:
                said.append('%s, %s: %.1f times as many as SIPp (%d)' % (flow, where, ours / theirs, least))
    return said


# Of emulated/generators.py: instructions of a call of both sides at most, at the rates that the generator is made for. What
# wakes it for a single message costs more, so that nothing is asked of lower ones.
MOST_INSTRUCTIONS, FROM_RATE = 110e3, 1500


def emulated(calls):
    """Of `strowger load`: instructions of a call by its rate. What was not measured at such a rate is not shown."""
    asked = {rate: cost for rate, cost in calls.items() if rate >= FROM_RATE}
    if not asked:
        return ['a call at %d/s or more: not measured' % FROM_RATE]
    return ['a call at %d/s takes %.0f thousand instructions (%.0f)' % (rate, cost / 1e3, MOST_INSTRUCTIONS / 1e3)
            for rate, cost in sorted(asked.items()) if not cost <= MOST_INSTRUCTIONS]


def peak(statuses):
    """Of peak.py: how the search of each server ended, by its name. 1: not even the lowest load conformed, or the largest was
    not confirmed, so the figure is none."""
    return ['the peak of %s is not confirmed (status %d)' % (name, status) for name, status in statuses.items() if status]


def tell(name, said):
    """One line a fault, and one that sums up. Says whether all is kept."""
    for text in said:
        print('NOT KEPT %s: %s' % (name, text), flush=True)
    print('verdict of %s: %s' % (name, 'not kept: %d' % len(said) if said else 'kept'), flush=True)
    return not said
