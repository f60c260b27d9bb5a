#!/usr/bin/env python3
"""What the generator's bench judges can fail, and records name no folder of the machine."""
import argparse
import contextlib
import io
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import generators  # noqa: E402  (after the path is set)
import records  # noqa: E402

GOOD = {('call', 'sipp', 1000): 8e3, ('call', 'strowger', 28000): 36e3, ('register', 'sipp', 1000): 24e3,
        ('register', 'strowger', 40000): 160e3}


def missed(best, memory=41e4, emulated=False):
    with contextlib.redirect_stdout(io.StringIO()):
        return generators.judged(argparse.Namespace(emulated=emulated), best, memory)


class Generators(unittest.TestCase):
    def test_each_goal_can_be_missed(self):
        self.assertEqual(missed(GOOD), [])
        self.assertEqual(len(missed(GOOD, 39e4)), 1)
        for key in (('call', 'strowger', 28000), ('register', 'strowger', 40000)):
            self.assertEqual(len(missed(dict(GOOD) | {key: GOOD[key] * 0.5})), 1, key)

    def test_what_was_not_measured_is_missed(self):
        self.assertEqual(len(missed({}, None)), 3)
        self.assertEqual(len(missed(GOOD, None)), 1)
        self.assertEqual(len(missed({key: v for key, v in GOOD.items() if key[1] == 'strowger'})), 3)

    def test_instructions_of_a_call_are_judged_at_high_rates(self):
        of = lambda costs: missed({('call', 'strowger', rate): 1e6 / cost for rate, cost in costs.items()}, None, True)
        self.assertEqual(of({500: 115, 1500: 96, 4000: 67}), [])
        self.assertEqual(len(of({1500: 111, 4000: 112})), 2)
        for nothing in ({}, {500: 60}, {1500: float('nan')}):
            self.assertEqual(len(of(nothing)), 1, nothing)


class Records(unittest.TestCase):
    def test_command_names_no_folder_of_the_machine(self):
        root = os.path.dirname(os.path.dirname(HERE))
        given, sys.argv = sys.argv, [root + '/verify/bench/connections.py', '--bin', root + '/target/release/strowger']
        try:
            self.assertEqual(records.command(), 'python3 verify/bench/connections.py --bin target/release/strowger')
        finally:
            sys.argv = given


if __name__ == '__main__':
    unittest.main(verbosity=0)
