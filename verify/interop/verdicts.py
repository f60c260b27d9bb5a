"""What the experiments with the balancer were asked to show, and whether their figures show it.

Each function gets figures as its bench has them and returns a list of what is not kept, in words. An empty list is a pass.
`python3 verify/interop/verdicts_test.py` has examples of both.
"""

# What docs/performance/balance.md promises of each experiment of balance_failure.py besides that no call is lost: seconds from the
# fault until every first attempt is answered again; and what it says cannot be kept there.
FAILURES = dict(
    # New calls move within half a second: none begun later goes to the node, and none waits for longer.
    node_killed=dict(back=0.5, moved=0.5, ringing=True, faults=1),
    node_hung=dict(back=0.5, moved=0.5, ringing=True, faults=1),
    node_hung_in_turn=dict(back=0.5, moved=0.5, ringing=True, faults=1),
    node_flapping=dict(back=20.0, ringing=True, faults=5),
    # With no node left callers get 503 and Retry-After, and calls that end meanwhile have nobody to tell.
    all_nodes_down=dict(back=13.0, ringing=True, faults=1, refusing=True),
    # No new call goes to it, and some do when it is taken in again.
    node_drained=dict(back=0.5, given=False, again=True),
    # New calls go to a node that was added, and none to one that was removed.
    node_added=dict(back=0.5, given=True),
    node_removed=dict(back=0.5, given=False),
    balancer_restarted=dict(back=2.0, faults=1),
    active_one_killed=dict(back=2.0, faults=1),
    active_none_killed=dict(back=0.5, events=('timed-out', 'retried')),
    # It comes back: what began at the other one then may end here, as in a split.
    bird_one_killed=dict(back=2.0, faults=1, waived=('left',)),
    # Callers notice nothing: who is told to end serves until no route leads to it.
    bird_one_ended=dict(back=0.5, faults=1, alive=True),
    standby_process_killed=dict(back=3.0, faults=1),
    # Callers notice no more than that the address moves, which is done before the balancer ends.
    standby_restarted=dict(back=1.0, faults=1, alive=True),
    standby_machine_killed=dict(back=2.0, faults=1),
    # What begins at one and ends at the other the first counts until `session_timeout`.
    standby_split_brain=dict(back=0.5, faults=1, waived=('left',)),
)


# New calls that may have had a provisional response and then nothing, where nodes fall: those that rang there just then, as
# many as begin at a node in some hundredths of a second. One in so many, these at least and these at most.
RANG, FEWEST_RANG, MOST_RANG = 1000, 3, 10

# The nodes, of which each has its share of new calls.
NODES = 3

# BYEs that were done, and repeated because their answer died with who was to pass it on, at each fault: those under way
# just then. A node or balancer has a BYE for some milliseconds and is asked for 500 to 1,500 a second, so that it is a
# handful whatever else is up: one in so many of the calls that are up, these at least and these at most.
DONE, FEWEST_DONE, MOST_DONE = 1000, 3, 10

# Calls that are up in all_nodes_down and hang up meanwhile: new ones last a second. So many seconds' worth of them.
ENDING = 1.5

# Transactions in so many may have been given to another node, or up, where nothing fails: a machine may stand still.
STRAYED = 1000


def failure(r, small=False):
    """Of one experiment of balance_failure.py, a dict of `tell`. `small`: it was short, so that not everything is over,
    and beside other work, so that its times mean nothing."""
    rule = FAILURES[r['name']]
    waived = rule.get('waived', ()) + (('back', 'left', 'void') if small else ())
    said = []

    def must(key, good, text):
        if key not in waived and not good:
            said.append(text)

    must('lost', r['lost'] == 0, '%d of %d calls that were up are lost' % (r['lost'], r['standing']))
    must('never_up', r['never_up'] == 0, '%d calls never came up' % r['never_up'])
    must('up', r['up'] >= r['asked'], '%d calls were up at the fault, and %d were asked for' % (r['up'], r['asked']))
    for which, begun, ordered in zip(('calls up', 'new calls'), (r['begun'], r['fresh']), r['ordered']):
        must('begun', begun >= ordered, 'of the %s %d were begun, of %d' % (which, begun, ordered))
    must('void', not r['void'], '; '.join(r['void']))
    said += refusals(r) if rule.get('refusing') else answered(r)
    rang = min(max(r['fresh'] // RANG, FEWEST_RANG), MOST_RANG) if rule.get('ringing') else 0
    must('hung', r['hung'] <= rang, '%d new calls had a provisional response and then nothing (%d)' % (r['hung'], rang))
    done = min(max(r['standing'] // DONE, FEWEST_DONE), MOST_DONE) * rule.get('faults', 0)
    must('over', r['over'] <= done, '%d BYEs were done and met 481 when they were repeated (%d)' % (r['over'], done))
    must('left', r['left'] == 0, '%d calls are still counted at the end' % r['left'])
    must('refused', r['refused'] == r['with_retry_after'], '%d of %d 503 have no Retry-After' % (
        r['refused'] - r['with_retry_after'], r['refused']))
    must('probes', r['probes'] > 0, 'no first attempt was made')
    must('back', r['back'] <= rule['back'], 'first attempts failed for %.2f s (%.1f)' % (r['back'], rule['back']))
    if 'moved' in rule and not small:
        said += moving(r, rule['moved'])
    if 'given' in rule:
        must('given', bool(r['given']) == rule['given'], '%d new calls went to the node' % r['given'])
    if rule.get('again') and not small:
        must('again', r['had'] > 0 and r['again'] > 0, '%d new calls went to the node before, and %d when it was taken in again' % (
            r['had'], r['again']))
    if rule.get('alive'):
        must('alive', r.get('alive'), 'the balancer ended before its address or its route had moved')
    # Of two balancers that both have the address: what a node says comes back to the one that asked.
    for event in rule.get('events', ()):
        if event not in r:
            said.append('transactions %s: not known' % event)
        else:
            must(event, r[event] * STRAYED <= r['assigned'], 'transactions %s: %d of %d' % (event, r[event], r['assigned']))
    return said


def answered(r):
    """New calls where some node is always there: none fails but those that had rung at one that has failed."""
    said = []
    if r['failed'] > r['hung']:
        said.append('%d new calls failed, of which %d had a provisional response' % (r['failed'], r['hung']))
    if r['fresh_lost']:
        said.append('%d new calls were lost' % r['fresh_lost'])
    return said


def refusals(r):
    """New calls where no node is left for a while: they are refused, every one with 503 and Retry-After, and not for nothing;
    those that are up then may not find anybody to tell of their end."""
    said = []
    if not r['refused'] or not r['unavailable']:
        said.append('503 to %d first attempts and to %d new calls: no node was left, and some had to be' % (
            r['refused'], r['unavailable']))
    if r['failed'] > r['hung'] + r['unavailable']:
        said.append('%d new calls failed, of which %d had 503 and %d a provisional response' % (
            r['failed'], r['unavailable'], r['hung']))
    if r['fresh_lost'] > ENDING * r['rate']:
        said.append('%d new calls were lost, and %.0f were up at the fault' % (r['fresh_lost'], r['rate']))
    return said


def moving(r, most):
    """That new calls leave a node that has failed: three views of it, of which the last is of all new calls."""
    said = []
    if r['moved'] > most:
        said.append('new calls went to the failed node for %.2f s (%.1f)' % (r['moved'], most))
    if r['waited'] > most:
        said.append('a new call waited for %.2f s (%.1f)' % (r['waited'], most))
    if r['slow'] > most * r['rate'] / NODES:
        said.append('%d new calls were not answered at once, and %.0f come to a node in %.1f s' % (
            r['slow'], most * r['rate'] / NODES, most))
    return said


# Of balance_counters.py: what the network must have done to so many of all datagrams at least, each of three ways; and of
# calls whose BYE never comes so many must have been given up, for not all of them are ever up.
FAULTS, GIVEN_UP = 0.03, 0.8


def counters(r):
    """Of balance_counters.py: that nothing is left, that nothing was ever absurd, and that it was what was asked for."""
    said = ['%s is %g at the end' % item for item in r['left'].items()]
    said += ['a counter is no count: ' + text for text in r['absurd'][:3]]
    said += ['ctl audit: ' + text for text in r['audits'][:3]]
    for kind, asked in r['asked'].items():
        if r['begun'].get(kind, 0) < asked:
            said.append('calls, %s: %d begun, of %d' % (kind, r['begun'].get(kind, 0), asked))
    total = sum(r['network'].values())
    for what in ('lost', 'doubled', 'late'):
        if r['network'].get(what, 0) < FAULTS * total or not total:
            said.append('the network did too little: %d of %d datagrams %s' % (r['network'].get(what, 0), total, what))
    if r['lost_calls'] < GIVEN_UP * r['asked']['without BYE']:
        said.append('%d calls were given up, and %d never had a BYE' % (r['lost_calls'], r['asked']['without BYE']))
    # Both ends of the race: some are cancelled in time, some are answered all the same.
    for final in ('200', '487'):
        if not r['finals']['cancelled'].get(final):
            said.append('no call that was cancelled ended with ' + final)
    return said


# Of registered.py: bytes a user by the table's own count and by memory, and microseconds of the server's own time, without
# the wait behind others, that 99.99 % of registrations take at most. A figure of fewer registrations than that says nothing of one in ten thousand.
MOST_COUNTED, MOST_RESIDENT, MOST_OWN, LEAST_CAPTURED = 200, 260, 1000, 50000


def registered(found):
    said = []
    for key, most, what in (('bytes_counted', MOST_COUNTED, "by the table's count"), ('bytes_resident', MOST_RESIDENT, 'by memory')):
        if not found[key] <= most:
            said.append('a user takes %.0f bytes %s (%d)' % (found[key], what, most))
    for phase in found['phases']:
        if phase['captured'] < LEAST_CAPTURED:
            said.append('%s: %d registrations captured, too few for a figure of one in ten thousand' % (phase['name'], phase['captured']))
        elif not phase['own'] <= MOST_OWN:
            said.append('%s: own time for 99.99 %% of registrations within %.0f us (%d)' % (phase['name'], phase['own'], MOST_OWN))
    return said


def tell(name, said, figures=()):
    """One line a figure that is not judged, one a fault, and one that sums up. Says whether all is kept."""
    for text in figures:
        print('%s: %s' % (name, text), flush=True)
    for text in said:
        print('NOT KEPT %s: %s' % (name, text), flush=True)
    print('verdict of %s: %s' % (name, 'not kept: %d' % len(said) if said else 'kept'), flush=True)
    return not said
