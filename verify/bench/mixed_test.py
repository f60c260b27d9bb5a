#!/usr/bin/env python3
"""The table of the workload `mixed`: enough kinds, sizes as documented, messages that are messages, one order for a seed."""
import os
import re
import statistics
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from mixed import scenario, table  # noqa: E402  (after the path is set)

# What each request has (RFC 3261 section 8.1.1), in the order of the short forms.
MANDATORY = {'via': 'v', 'from': 'f', 'to': 't', 'call-id': 'i', 'cseq': '', 'max-forwards': ''}
KEPT = os.path.join(HERE, 'mixed', 'README.md')


def headers(message):
    """Name in lower case and value of each header; folded lines are joined."""
    head = message.split(b'\r\n\r\n')[0].decode()
    lines = re.sub('\r\n[ \t]+', ' ', head).split('\r\n')[1:]
    return [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(':') for line in lines)]


def long_name(name):
    short = {'v': 'via', 'f': 'from', 't': 'to', 'i': 'call-id', 'm': 'contact', 'c': 'content-type', 'l': 'content-length',
             'k': 'supported', 's': 'subject'}
    return short.get(name, name)


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mixed = scenario.Mixed('127.0.0.9')
        cls.messages = list(scenario.samples(cls.mixed, 5))

    def invites(self):
        return [message for kind, flag, message in self.messages if flag == 'I']

    def test_there_are_twenty_kinds_at_least_on_both_sides(self):
        self.assertGreaterEqual(len(self.mixed.kinds), 20)
        self.assertEqual(len({kind.name for kind in self.mixed.kinds}), len(self.mixed.kinds))
        rows = self.mixed.rows(1500)
        names = {person.user: person.kind.name for person in self.mixed.calling + self.mixed.called}
        self.assertGreaterEqual(len({names[row[scenario.USER]] for row in rows}), 20)
        self.assertGreaterEqual(len({names[row[scenario.PEER]] for row in rows}), 20)

    def test_each_kind_says_where_its_shape_is_from(self):
        for kind in self.mixed.kinds:
            self.assertGreater(len(kind.keys['source']), 20, kind.name)

    def test_invites_have_the_documented_sizes(self):
        sizes = [len(message) for message in self.invites()]
        self.assertGreaterEqual(min(sizes), 450)
        self.assertLessEqual(max(sizes), 2800)
        bodies = [len(message.split(b'\r\n\r\n', 1)[1]) for message in self.invites()]
        self.assertTrue(min(bodies) <= 200 and 1500 <= max(bodies) <= 2000, (min(bodies), max(bodies)))

    def test_the_mean_size_is_the_documented_one(self):
        weighed = [len(message) for kind, flag, message in self.messages if flag == 'I' for _ in range(kind.caller_weight)]
        with open(KEPT) as f:
            documented = int(re.search(r'mean of ([\d,]+) bytes', f.read())[1].replace(',', ''))
        self.assertLess(abs(statistics.mean(weighed) - documented), 20, statistics.mean(weighed))

    def test_each_request_has_what_it_must_have_once(self):
        for kind, flag, message in self.messages:
            names = [long_name(name) for name, _ in headers(message)]
            for name in MANDATORY:
                self.assertEqual(names.count(name) if name != 'via' else min(names.count(name), 1), 1, (kind.name, flag, name))
            self.assertEqual(names.count('content-length'), 1, (kind.name, flag))
            self.assertLessEqual(names.count('contact'), 1, (kind.name, flag))
            values = dict((long_name(name), value) for name, value in headers(message))
            head, _, body = message.partition(b'\r\n\r\n')
            self.assertEqual(int(values['content-length']), len(body), (kind.name, flag))
            method = message.split(b' ')[0].decode()
            self.assertRegex(values['cseq'], r'^\d+ +%s$' % method)
            self.assertRegex(values['via'], r'branch=z9hG4bK[\w.*+%!`\'~-]{5,}')
            self.assertIn(';tag=', values['from'])
            self.assertEqual(';tag=' in values['to'], flag in table.IN_DIALOG + 'X', (kind.name, flag))
            if flag in 'IrMR':
                self.assertIn(b'\n', body if flag != 'R' else b'\n')
            if flag in 'IrR':
                self.assertIn('contact', names, (kind.name, flag))
            if flag in table.IN_DIALOG:
                self.assertIn('route', names, (kind.name, flag))
            self.assertNotRegex(message.decode(), r'[{}]|<\w+\*', (kind.name, flag))

    def test_the_shapes_that_the_mix_is_for_are_there(self):
        text = b''.join(message for _, _, message in self.messages).decode()
        for shape in (r'\nv: ', r'\nVIA: ', r'\nVia : ', r';rport', r';ob>', r'\+sip\.instance', r'\n[ \t]+\S', r'Session-Expires',
                      r'P-Asserted-Identity', r'P-Preferred-Identity', r'History-Info', r'Diversion', r'Reason: ', r'\nX-',
                      r'a=candidate', r'IN IP6', r'\[2001:', r'Min-SE', r'From: sip:', r'"@|" <sip', r'gruu'):
            self.assertRegex(text, shape)

    def test_ids_of_a_call_are_its_own(self):
        rows = self.mixed.rows(2000)
        self.assertEqual(len({row[scenario.CALL_ID] for row in rows}), len(rows))
        self.assertTrue(all(';' not in field and '\n' not in field for row in rows for field in row))
        self.assertEqual(len({len(row) for row in rows}), 1)

    def test_the_same_seed_is_the_same_sequence(self):
        again = scenario.Mixed('127.0.0.9')
        self.assertEqual(again.rows(500), self.mixed.rows(500))
        self.assertEqual(again.rows(500), self.mixed.rows(1000)[:500])
        self.assertEqual(again.callers.steps.text('x'), self.mixed.callers.steps.text('x'))
        self.assertEqual(again.registration(again.called[5], 5, 5060), self.mixed.registration(self.mixed.called[5], 5, 5060))
        self.assertNotEqual(scenario.Mixed('127.0.0.9', seed=2).rows(500), self.mixed.rows(500))

    def test_shares_of_flows_are_those_documented(self):
        self.assertEqual(sum(share for share, _ in scenario.FLOWS.values()), 100)
        with open(KEPT) as f:
            text = f.read()
        for name, (share, _) in scenario.FLOWS.items():
            self.assertIn('| `%s` | %d %% |' % (name, share), text)

    def test_every_kind_is_documented(self):
        with open(KEPT) as f:
            text = f.read()
        for kind in self.mixed.kinds:
            self.assertIn('`%s`' % kind.name, text)


class Reading(unittest.TestCase):
    def test_a_table_that_says_nothing_is_refused(self):
        for text in ('x: y', '= a\nnonsense', '= a\nrequest:\nZ Via: x', '= a\nweight: 1 1\nsource: none at all'):
            with self.assertRaises(table.Wrong):
                table.read(text)

    def test_a_second_description_has_a_higher_version_and_holds(self):
        sdp = ['o=- {sess} {sess} IN IP4 {ip}', 'a=sendrecv']
        self.assertEqual(table.again(sdp, 'sendonly'), ['o=- {sess} {sess+1} IN IP4 {ip}', 'a=sendonly'])
        self.assertEqual(table.again(['o=- 1 {v+1} IN IP4 x'], 'recvonly'), ['o=- 1 {v+2} IN IP4 x', 'a=recvonly'])
        self.assertEqual(table.again(['o=u 5 7 IN IP4 x'], 'sendonly')[0], 'o=u 5 8 IN IP4 x')


if __name__ == '__main__':
    unittest.main(verbosity=0)
