#!/usr/bin/env python3
"""A million calls through `strowger balance` and a bad network: every counter ends at zero, and none is ever absurd.

    verify/interop/balance_counters.py --bin target/release/strowger [--calls 1000000] [--rate 2500]

Three nodes and the callers are each behind a network (lossy.c) that loses, repeats and delays five datagrams of a hundred
each, either way. Of ten calls six are ordinary, of a random length; three are cancelled after a random time, some before
the phone has answered, some after that, some while the 200 is on its way (phones ring for a random time); and one ends
without a BYE. Many fail, for the callees' own answers are lost, too. What is looked at is the balancer's counting: while it
runs its nodes' counters, and what `ctl audit` finds when it counts the records anew; and when the last call that nobody
ended has been given up (a minute), transactions are forgotten (half a minute) and so are records, that nothing is left.

A line every ten seconds; the last line is a verdict (verdicts.py), and the exit status is 1 if something is not kept. A
table and all figures are written to lab/record (--record). No rights are needed, for all of it is on loopback; a C compiler is.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

import records  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402
from harness import load, net, servers  # noqa: E402

NODES = 3
# The shortest there is, for calls that nobody ends and for INVITEs that ring; then transactions, what is remembered of the
# ended, and as long as an INVITE may ring who still has to be told that it is over.
SESSION, RING, TRANSACTION, REMEMBERED, PATIENCE = 60, 60, 33, 33, 15
# Parts of all calls.
KINDS = {'ordinary': 0.6, 'cancelled': 0.3, 'without BYE': 0.1}
PAUSE = '<pause distribution="normal" mean="%d" stdev="%d"/>'
# What has to come back to zero, and may never be less, or more than there were calls.
COUNTERS = ('strowger_balance_calls', 'strowger_balance_transactions', 'strowger_balance_work')
RECORDS = 'strowger_balance_records'


class Network:
    """All fronts of lossy.c: what it has done is known when it has ended."""

    def __init__(self, directory, pairs, seed):
        program = os.path.join(directory, 'lossy')
        subprocess.run([shutil.which('cc') or 'gcc', '-O2', '-Wall', '-o', program, os.path.join(HERE, 'lossy.c')], check=True)
        self.process = servers.Process([program, str(seed), *(ip for pair in pairs for ip in pair)])
        net.poll('the network is ready', 5, lambda: self.process.said('ready') or not self.process.running())
        if not self.process.running():
            raise AssertionError('the network did not start:\n' + self.process.log())

    def done(self):
        self.process.stop()
        net.poll('the network has said what it did', 5, lambda: self.process.said('passed'))
        words = self.process.log(1).split()
        return dict(zip(words[::2], map(int, words[1::2])))


def scenarios(binary, directory):
    """Files of the built-in scenarios with times that vary: of callers by their kind, and of a phone."""
    def built_in(name):
        return subprocess.run([binary, 'load', '-sd', name], stdout=subprocess.PIPE, text=True, check=True).stdout

    def keep(name, text):
        path = os.path.join(directory, name + '.xml')
        with open(path, 'w') as f:
            f.write(text)
        return path

    call, cancel, phone = (built_in(name) for name in ('uac', 'cancel', 'uas'))
    ring = '<send retrans="500">'
    for text, mark in ((call, '<pause/>'), (cancel, '<pause/>'), (phone, ring)):
        assert mark in text, 'a built-in scenario has no ' + mark
    callers = {
        'ordinary': keep('ordinary', call.replace('<pause/>', PAUSE % (500, 400))),
        'cancelled': keep('cancelled', cancel.replace('<pause/>', PAUSE % (150, 150))),
        'without BYE': keep('no_bye', call[:call.index('<pause/>')] + '</scenario>\n')}
    return callers, keep('phone', phone.replace(ring, PAUSE % (150, 150) + '\n  ' + ring, 1))


class Scene:
    """Phones that are nodes, networks, the balancer, callers."""

    def __init__(self, o, directory):
        self.o, self.running = o, []
        self.callers, phone = scenarios(o.bin, directory)
        phones, fronts = ([net.fresh_ip() for _ in range(NODES)] for _ in range(2))
        own, self.front = net.fresh_ip(), net.fresh_ip()
        self.balancer = servers.Balancer(o.bin, ['%s:5060' % ip for ip in fronts], 2, ip=own,
                                         config='[balance]\nsession_timeout = "%ds"\nring_timeout = "%ds"\n' % (SESSION, RING))
        try:
            for ip in phones:
                self.running.append(load.Load(o.bin, phone, ip=ip))
            self.network = Network(directory, list(zip(fronts, phones)) + [(self.front, own)], o.seed)
            self.running.append(self.network.process)
            self.balancer.start()
            net.poll('every node is up', 20, lambda: all(
                n['health'] == 'up' for n in self.balancer.all_nodes().values()))
        except BaseException:
            self.end()
            raise

    def call(self):
        """A generator for each kind, by its name."""
        made = {}
        for kind, part in KINDS.items():
            made[kind] = load.Load(
                self.o.bin, self.callers[kind], (self.front, 5060), rate=max(int(self.o.rate * part), 1),
                calls=self.asked(kind), rows=[('ann', '', 'bob')], keys=[('domain', 'example.com')],
                extra=['--recv-timeout', '20000', '--seed', str(self.o.seed)])
            self.running.append(made[kind])
        return made

    def asked(self, kind):
        return max(int(self.o.calls * KINDS[kind]), 1)

    def end(self):
        for one in reversed(self.running):
            one.stop()
        self.balancer.__exit__()


def values(page, name):
    return [float(found) for found in re.findall(r'^%s\{[^}]*\} (\S+)$' % name, page, re.M)]


class Watch:
    """What the counters say, again and again."""

    def __init__(self, balancer, most):
        self.balancer, self.most, self.absurd, self.audits = balancer, most, [], []
        self.begun, self.told, self.highest, self.samples = time.monotonic(), 0.0, 0.0, 0

    def look(self, every=10.0):
        """The figures that are not zero. Says so now and then."""
        page = self.balancer.page()
        self.samples += 1
        for name in COUNTERS:
            found = values(page, name)
            if not found or any(not 0 <= v <= self.most for v in found):
                self.absurd.append('%s: %s' % (name, found))
        sums = {name: sum(values(page, name)) for name in COUNTERS}
        sums.update((found[1], float(found[2])) for found in re.finditer(r'^(%s\{[^}]*\}) (\S+)$' % RECORDS, page, re.M))
        self.highest = max(self.highest, sums['strowger_balance_calls'])
        took = time.monotonic() - self.begun
        if took - self.told >= every:
            self.told = took
            self.audit()
            print('%4.0f s: %d transactions given to nodes; now %d calls, %d transactions, %d records' % (
                took, sum(values(page, 'strowger_balance_assigned_total')), sums[COUNTERS[0]], sums[COUNTERS[1]],
                sum(value for name, value in sums.items() if name.startswith(RECORDS))), flush=True)
        return {name: value for name, value in sums.items() if value}

    def audit(self):
        """Of a balancer at work, too: a worker counts its own records between two messages."""
        try:
            text = self.balancer.ctl('audit')
        except AssertionError as error:
            text = str(error)
            self.audits.append(text.strip())
        return text.strip()


def measure(o, directory):
    scene = Scene(o, directory)
    try:
        watch = Watch(scene.balancer, o.calls)
        generators = scene.call()
        while any(g.process.running() for g in generators.values()):
            watch.look()
            time.sleep(1)
        over = time.monotonic() + SESSION + TRANSACTION + REMEMBERED + RING + PATIENCE
        while (left := watch.look()) and time.monotonic() < over:
            time.sleep(1)
        audit, events = watch.audit(), scene.balancer.page()
        done = scene.network.done()
        counts = {kind: g.report()['measured'] for kind, g in generators.items()}
    finally:
        scene.end()
    event = lambda name: int(sum(float(v) for v in re.findall(
        r'^strowger_balance_events_total\{event="%s"\} (\S+)$' % name, events, re.M)))
    return dict(
        asked={kind: scene.asked(kind) for kind in KINDS}, left=left, absurd=watch.absurd, audits=watch.audits, audit=audit,
        begun={kind: int(c.get('calls.begun', 0)) for kind, c in counts.items()},
        finals={kind: {k[len('session_finals.'):]: int(v) for k, v in c.items() if k.startswith('session_finals.')}
                for kind, c in counts.items()},
        network=done, lost_calls=event('lost-call'), repeated=event('repeated'), highest=watch.highest, samples=watch.samples)


def table(r):
    """For a record."""
    total, said = max(sum(r['network'].values()), 1), verdicts.counters(r)
    rows = ['| calls | asked for | begun | answers to INVITE |', '| --- | --- | --- | --- |']
    rows += ['| %s | %d | %d | %s |' % (kind, r['asked'][kind], r['begun'][kind], ', '.join(
        '%s: %d' % item for item in sorted(r['finals'][kind].items()))) for kind in KINDS]
    return rows + [
        '', '- network: %d datagrams, of which %s' % (total, ', '.join(
            '%s %.1f %%' % (what, 100 * count / total) for what, count in r['network'].items() if what != 'passed')),
        '- at most %d calls at a time, in %d looks; %d calls given up; requests that had come before: %d' % (
            r['highest'], r['samples'], r['lost_calls'], r['repeated']),
        '- left at the end: %s; absurd figures: %d; audits that failed: %d' % (r['left'] or 'nothing', len(r['absurd']), len(r['audits'])),
        '- audit at the end: %s' % r['audit'].replace('\n', '; '), '- verdict: %s' % ('not kept: ' + '; '.join(said) if said else 'kept')]


def tell(r):
    total = max(sum(r['network'].values()), 1)
    print('network: %d datagrams, of which %s' % (total, ', '.join(
        '%s %.1f %%' % (what, 100 * count / total) for what, count in r['network'].items() if what != 'passed')))
    for kind in KINDS:
        finals = ', '.join('%s: %d' % item for item in sorted(r['finals'][kind].items()))
        print('calls, %s: %d begun; answers to INVITE: %s' % (kind, r['begun'][kind], finals))
    print('the balancer: at most %d calls at a time in %d looks; %d calls given up, requests that had come before: %d' % (
        r['highest'], r['samples'], r['lost_calls'], r['repeated']))
    print('audit at the end: ' + r['audit'])


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--calls', type=int, default=1000000)
    p.add_argument('--rate', type=int, default=2500, help='calls a second')
    p.add_argument('--seed', type=int, default=1, help='of what the network does')
    p.add_argument('--record', default='lab/record', help='where the table and the figures are written')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    if not (shutil.which('cc') or shutil.which('gcc')):
        print('no C compiler (apt-get install gcc)')
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = tempfile.mkdtemp(prefix='strowger-counters-')
    try:
        found = measure(o, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    tell(found)
    records.write(o.record, 'balance-counters', 'What the balancer counts in a bad network', 1, table(found), found,
                  '%d calls, %d a second' % (o.calls, o.rate))
    return 0 if verdicts.tell('the counters', verdicts.counters(found)) else 1


if __name__ == '__main__':
    sys.exit(main())
