#!/usr/bin/env python3
"""That the verdicts of the benches can fail: each of their rules, once kept and once not."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'bench'))

import balance_failure  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402


def good(name='node_killed', **more):
    """Figures of an experiment in which all was well."""
    r = dict(name=name, asked=20000, rate=500, ordered=[21000, 11000], up=21500, begun=21000, standing=21000, void=[], lost=0, never_up=0, fresh=11000, failed=0, fresh_lost=0, hung=0, back=0.0,
             over=0, moved=0.0, waited=0.1, slow=0, unavailable=0, first_try_failed=0, probes=1000, refused=0, with_retry_after=0, left=0, notes=[])
    if 'events' in verdicts.FAILURES[name]:
        r.update({'assigned': 50000, 'timed-out': 0, 'retried': 0})
    if 'given' in verdicts.FAILURES[name]:
        r['given'] = 2500 if verdicts.FAILURES[name]['given'] else 0
    if 'again' in verdicts.FAILURES[name]:
        r.update(had=5000, again=1000)
    if 'refusing' in verdicts.FAILURES[name]:
        r.update(refused=450, with_retry_after=450, unavailable=4500, failed=4500, fresh_lost=500)
    if 'alive' in verdicts.FAILURES[name]:
        r['alive'] = True
    return dict(r, **more)


class Failure(unittest.TestCase):
    def test_every_experiment_has_a_verdict_and_passes_when_all_is_well(self):
        self.assertEqual(set(verdicts.FAILURES), set(balance_failure.EXPERIMENTS))
        for name in verdicts.FAILURES:
            self.assertEqual(verdicts.failure(good(name)), [], name)

    def test_each_promise_can_be_broken(self):
        for broken in (dict(lost=1), dict(never_up=1), dict(up=0), dict(up=1), dict(up=19999), dict(begun=20999),
                       dict(fresh=10000), dict(void=['lost packets']), dict(failed=3, hung=2), dict(fresh_lost=1), dict(left=1),
                       dict(refused=2, with_retry_after=1), dict(probes=0), dict(back=2.5)):
            self.assertEqual(len(verdicts.failure(good(**broken))), 1, broken)
        self.assertEqual(verdicts.failure(good(failed=2, hung=2)), [], 'they had rung at who was killed')

    def test_only_a_handful_may_have_rung_where_nodes_fall_and_none_elsewhere(self):
        for name, rule in verdicts.FAILURES.items():
            most = 10 if name in ('node_killed', 'node_hung', 'node_hung_in_turn', 'node_flapping', 'all_nodes_down') else 0
            failed = good(name)['failed']
            self.assertEqual(verdicts.failure(good(name, failed=failed + most, hung=most)), [], name)
            bad = good(name, failed=failed + most + 1, hung=most + 1)
            self.assertEqual(len(verdicts.failure(bad)), 1, name)
        self.assertEqual(len(verdicts.failure(good(fresh=200, ordered=[21000, 200], failed=4, hung=4))), 1)
        self.assertEqual(verdicts.failure(good(fresh=200, ordered=[21000, 200], failed=3, hung=3)), [])

    def test_what_cannot_be_kept_is_waived_there_alone(self):
        self.assertEqual(len(verdicts.failure(good('all_nodes_down', left=1))), 1)
        self.assertEqual(verdicts.failure(good('standby_split_brain', left=7)), [])
        self.assertEqual(verdicts.failure(good(left=7, back=9.0), small=True), [])
        self.assertEqual(len(verdicts.failure(good(lost=1), small=True)), 1)

    def test_new_calls_leave_a_node_that_has_failed_within_half_a_second(self):
        for name in ('node_killed', 'node_hung', 'node_hung_in_turn'):
            self.assertEqual(verdicts.failure(good(name, moved=0.43, waited=0.42, slow=80, back=0.43)), [], name)
            for broken in (dict(moved=0.51), dict(waited=0.51), dict(slow=90), dict(back=0.51)):
                self.assertEqual(len(verdicts.failure(good(name, **broken))), 1, broken)
                self.assertEqual(verdicts.failure(good(name, **broken), small=True), [], broken)

    def test_that_figure_is_of_the_last_call_that_had_to_be_moved(self):
        call = lambda sent, took, status=200: dict(sent=100 + sent, took=took, status=status, ok=status == 200 and took <= 0.4)
        found = balance_failure.times([call(-0.1, 0.5), call(0.1, 0.41), call(0.36, 0.405), call(0.4, 0.002)], 100)
        self.assertAlmostEqual(found['moved'], 0.36 + balance_failure.STEP)
        self.assertAlmostEqual(found['waited'], 0.41)
        found = balance_failure.times([call(0.1, 0.002), call(0.7, 3.0, 0), call(0.8, 0.002)], 100)
        self.assertAlmostEqual(found['moved'], 0.7 + balance_failure.STEP, msg='one that was never answered')
        self.assertEqual(found['waited'], 3.0)
        self.assertGreater(balance_failure.times([call(0.6, 0.01, 503)], 100)['moved'], 0.6, 'one that was refused')
        report = dict(latencies=[dict(key='setup', sent=dict(buckets=[[2000, 900], [300000, 5], [310000, 7], [420000, 2]]))])
        self.assertEqual(balance_failure.slower(report, 0.3), 9)

    def test_with_no_node_left_every_new_call_is_refused_and_told_when_to_come_back(self):
        for broken in (dict(refused=0, with_retry_after=0), dict(unavailable=0, failed=0), dict(with_retry_after=449),
                       dict(failed=4501), dict(fresh_lost=751)):
            self.assertEqual(len(verdicts.failure(good('all_nodes_down', **broken))), 1, broken)

    def test_a_handful_of_byes_may_have_been_done_where_something_fails_and_none_elsewhere(self):
        for name, rule in verdicts.FAILURES.items():
            most = 10 * rule.get('faults', 0)
            self.assertEqual(verdicts.failure(good(name, over=most)), [], name)
            self.assertEqual(len(verdicts.failure(good(name, over=most + 1))), 1, name)
        few = dict(asked=300, ordered=[360, 300], begun=360, standing=360)
        self.assertEqual(verdicts.failure(good(over=3, **few)), [])
        self.assertEqual(len(verdicts.failure(good(over=4, **few))), 1)

    def test_a_generator_that_says_void_or_never_ended_says_nothing(self):
        check = dict(name='lateness', found='1200 ms', limit='1000 ms', kept=False, of_generator=True)
        theirs = dict(check, of_generator=False)
        report = lambda *checks: dict(verdict=dict(checks=list(checks)))
        self.assertEqual(balance_failure.own_faults('new calls', report(theirs, dict(check, kept=True)), True), [])
        self.assertEqual(len(balance_failure.own_faults('new calls', report(check), True)), 1)
        self.assertEqual(len(balance_failure.own_faults('new calls', report(), False)), 1)
        self.assertEqual(verdicts.failure(good(void=['late']), small=True), [])

    def test_new_calls_go_to_who_was_added_and_not_to_who_was_removed(self):
        self.assertEqual(len(verdicts.failure(good('node_added', given=0))), 1)
        self.assertEqual(len(verdicts.failure(good('node_removed', given=1))), 1)

    def test_none_goes_to_who_is_drained_until_it_is_taken_in_again(self):
        for broken in (dict(given=1), dict(had=0), dict(again=0)):
            self.assertEqual(len(verdicts.failure(good('node_drained', **broken))), 1, broken)

    def test_who_is_told_to_end_waits_until_its_address_has_moved(self):
        self.assertEqual(len(verdicts.failure(good('standby_restarted', alive=False))), 1)
        self.assertEqual(len(verdicts.failure(good('standby_restarted', back=1.5))), 1)

    def test_two_that_have_one_address_do_not_disturb_each_other(self):
        for event in ('timed-out', 'retried'):
            bad = good('active_none_killed', **{event: 4000})
            self.assertEqual(len(verdicts.failure(bad)), 1, event)
            del bad[event]
            self.assertEqual(len(verdicts.failure(bad)), 1, event)


class Counters(unittest.TestCase):
    def found(self, **more):
        return dict(dict(
            asked={'ordinary': 600, 'cancelled': 300, 'without BYE': 100}, begun={'ordinary': 600, 'cancelled': 300, 'without BYE': 100},
            left={}, absurd=[], audits=[], network=dict(passed=8500, lost=500, doubled=500, late=500), lost_calls=95,
            finals={'cancelled': {'200': 100, '487': 200}}), **more)

    def test_each_promise_can_be_broken(self):
        self.assertEqual(verdicts.counters(self.found()), [])
        for broken in (dict(left={'strowger_balance_calls': 1.0}), dict(absurd=['work: [-1.0]']), dict(audits=['not exact']),
                       dict(begun={'ordinary': 599, 'cancelled': 300, 'without BYE': 100}), dict(lost_calls=50),
                       dict(network=dict(passed=9400, lost=10, doubled=500, late=500)), dict(finals={'cancelled': {'200': 300}})):
            self.assertEqual(len(verdicts.counters(self.found(**broken))), 1, broken)


class Users(unittest.TestCase):
    def test_registered_users(self):
        phase = dict(name='refresh', captured=60000, own=900)
        good = dict(bytes_counted=150, bytes_resident=200, phases=[phase])
        self.assertEqual(verdicts.registered(good), [])
        for changed in (dict(bytes_counted=201), dict(bytes_resident=261), dict(bytes_resident=float('nan')),
                        dict(phases=[dict(phase, captured=100)]), dict(phases=[phase, dict(phase, own=1001)])):
            self.assertEqual(len(verdicts.registered(dict(good, **changed))), 1)


if __name__ == '__main__':
    unittest.main(verbosity=0)
