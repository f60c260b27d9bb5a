#!/usr/bin/env python3
"""What callers notice when something fails behind or beside `strowger balance`: 20,000 calls up, 500 new ones a second.

    verify/interop/balance_failure.py --bin target/release/strowger [--calls 20000] [--rate 500] [NAME...]

For each experiment (--list): calls up before the fault; of these, lost, that is: their BYE was not answered with 2xx;
calls begun around and after the fault that failed; and after how long each new call was answered at its first attempt,
seen by a client that begins one every 20 ms and never repeats anything. Where nodes fail, also how long new calls still
went to a node that had failed (`moved`): until the last one was begun that was not answered at once, which takes 0.3 s at
most where the node works, and 0.4 s at least (`silent_after`) where the balancer has to give the call to another one. Of all new
calls it counts how many took that long (`slow`), and says how long the longest waited that was begun after the fault.

The callers are two `strowger load`: one sets up `--calls` calls and hangs up after the fault, the other makes
`--rate` calls a second from before the fault until well after it. The nodes are three `strowger serve` that share
their secret and know each other's address as their own, so that each can take the dialogs of another; the phones
behind them are one more `strowger load`. The exit status is 1 if something is not kept that docs/performance/balance.md promises
(verdicts.py has the list), which is also said line by line. Experiments with one balancer run on loopback; those with two
in network namespaces that they make and remove (root; `ip`, keepalived for the standby ones, BIRD 2 for those of its name).
A table and all figures are written to lab/record (--record).
"""
import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

import records  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402
from balance_places import Active, Bird, Loopback, Standby  # noqa: E402
from harness import load, net, servers  # noqa: E402

DOMAIN = 'phones.test'
NODES = 3
# The client that asks without repeating: between two calls, and how long it waits for an answer.
STEP, PATIENCE = 0.02, 0.4
# What is answered within this was not moved from a silent node, which takes `silent_after`, 0.4 s.
AT_ONCE = 0.3
# What the generator says of calls that nobody answered any more.
SILENT = 'expected message did not come'
EXPERIMENTS = {}


def experiment(place, hold=0.0, after=18.0, **more):
    """`hold`: seconds from the fault until the calls that were up before hang up; `after`: new calls go on so long."""
    def add(function):
        EXPERIMENTS[function.__name__] = (function, place, hold, after, more)
        return function
    return add


class Scene:
    """Nodes, phones, balancers and callers of one experiment."""

    def __init__(self, o, place, nodes=NODES, spare=0, config='', algorithm=None):
        """`spare`: nodes that run and that the others know, but no balancer's list has."""
        self.o, self.place = o, place
        self.dir = tempfile.mkdtemp(prefix='strowger-failure-')
        self.secret = os.urandom(32)
        self.phones = place.phones()
        self.nodes = [self.node(at, nodes + spare) for at in range(nodes + spare)]
        self.balancers = place.balancers(o.bin, ['%s:5060' % n.ip for n in self.nodes[:nodes]], self.secret, config)
        for balancer in self.balancers:
            balancer.algorithm = algorithm or balancer.algorithm
        self.running, self.notes, self.figures = [], [], {}

    def node(self, at, count):
        """A proxy that takes calls from the balancers alone, and for the phones."""
        ip, prefix = self.place.node(at)
        others = [self.place.node(i)[0] for i in range(count) if i != at] + [self.place.service]
        config = 'aliases = [%s]\n' % ', '.join(
            '"%s"' % a for a in others)
        sources = ', '.join('"%s"' % a for a in self.place.sources())
        config += '[[trunk]]\nname = "front"\ntargets = ["sip:%s"]\nsources = [%s]\nmay_transit = true\n' % (
            self.place.service, sources)
        config += '[[route]]\ndomain = "%s"\ntargets = ["sip:%s:5060"]\n' % (DOMAIN, self.phones[0])
        node = servers.Strowger(self.o.bin, 'node.test', 1, False, config=config, ip=ip, prefix=prefix)
        node.admin = '127.0.0.%d:8080' % (2 + at) if prefix else node.admin
        with open(os.open(os.path.join(node.data, 'secret'), os.O_WRONLY | os.O_CREAT, 0o600), 'wb') as f:
            f.write(self.secret)
        return node

    def __enter__(self):
        try:
            ip, prefix = self.phones
            # Long enough to answer whatever is repeated.
            self.running.append(load.Load(self.o.bin, 'callee.xml', ip=ip, prefix=prefix))
            for node in self.nodes:
                self.running.append(node.start())
            for balancer in self.balancers:
                self.running.append(balancer.start())
            self.place.begin(self)
            net.poll('every node is up', 20, lambda: all(
                n['health'] == 'up' for b in self.balancers for n in b.all_nodes().values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.place.end()
        for one in reversed(self.running):
            one.stop() if isinstance(one, (load.Load, Probe)) else one.__exit__()
        shutil.rmtree(self.dir, ignore_errors=True)

    def callers(self, which, rate, calls, hold):
        address, prefix, extra = self.place.callers(which)
        generator = load.Load(self.o.bin, '-sn proxy200', (self.place.service, 5060), ip=address, rate=rate, calls=calls,
                              rows=[('a', '', 'b')], keys=[('domain', DOMAIN)], prefix=prefix,
                              extra=['-d', str(int(hold * 1000)), '--ladders', '200'] + extra)
        self.running.append(generator)
        return generator

    def up(self):
        """Calls that are up, as the balancers count them."""
        return sum(b.calls() for b in self.balancers if b.process.running())

    def say(self, text):
        self.notes.append(text)


# ---------------------------------------------------------------- one experiment
def measure(o, name):
    function, place, hold, after, more = EXPERIMENTS[name]
    after = min(after, o.after or after)
    ramp = o.calls / o.ramp_rate
    with Scene(o, place(o), **more) as scene:
        begun = time.monotonic()
        # A second more of them than asked: those hang up before the fault.
        standing = scene.callers('standing', o.ramp_rate, o.calls + o.ramp_rate, ramp + 1.0 + 1.0 + hold)
        until(begun + ramp - 2)
        fresh = scene.callers('fresh', o.rate, int(o.rate * (4.0 + after)), 1.0)
        probe = Probe(scene, 4.0 + after + 1)
        until(begun + ramp + 1.9)
        up = scene.up()
        until(begun + ramp + 2)
        fault = time.time()
        afterwards = function(scene)
        probed = probe.result()
        ended = [generator.wait(ramp + hold + 90) is not None for generator in (standing, fresh)]
        # The longest wait is that for an INVITE that was never answered: 33 s.
        end = time.monotonic() + (40 if o.settle else 0)
        while scene.up() and time.monotonic() < end:
            time.sleep(0.5)
        left = scene.up()
        if afterwards:
            afterwards()
    asked = dict(asked=o.calls, rate=o.rate, ordered=[o.calls + o.ramp_rate, int(o.rate * (4.0 + after))])
    said = dict(tell(name, up, standing.report(), fresh.report(), probed, fault, scene.notes, left), **asked, **scene.figures)
    if said['lost']:
        said['notes'] += flows(standing.report())
    said['void'] = [why for which, generator, whole in zip(('calls up', 'new calls'), (standing, fresh), ended)
                    for why in own_faults(which, generator.report(), whole)]
    return said


def own_faults(which, report, ended):
    """Why a generator says nothing of the balancer, in words: it says VOID itself, or had to be ended."""
    said = [] if ended else ['the generator of %s did not end by itself' % which]
    return said + ['the generator of %s is VOID: %s: %s (%s)' % (which, check['name'], check['found'], check['limit'])
                   for check in report['verdict']['checks'] if check['of_generator'] and not check['kept']]


def hung_up(report):
    """Calls whose BYE was done, and repeated because its answer died with a node: it met 481, by which the call is over
    as well (RFC 3261 section 15.1.1)."""
    again = lambda f: f['drawing'].count(' BYE ') > 1 and re.search('481', f['why'])
    return sum(1 for f in report['ladders'] if again(f))


def flows(report, most=3):
    """The first failing calls as they went, in text."""
    return ['%s, %.1f s after the start: %s\n%s' % (f['call_id'], f['at'], f['why'], f['drawing'])
            for f in report['ladders'][:most]]


def until(when):
    time.sleep(max(0.0, when - time.monotonic()))


def tell(name, up, standing, fresh, probed, fault, notes, left):
    """The figures of one experiment, of both generators' reports and of the probe's calls."""
    over = [hung_up(report) for report in (standing, fresh)]
    slow = slower(fresh, AT_ONCE)
    standing, fresh = standing['measured'], fresh['measured']
    get = lambda c, key: int(c.get(key, 0))
    ended = lambda c: get(c, 'calls.succeeded') - get(c, 'sessions_established')
    if sum(over):
        notes.append('%d BYEs were done and repeated, because the answer died with its node, and met 481' % sum(over))
    bad = [p for p in probed if not p['ok'] and p['sent'] >= fault - PATIENCE]
    return dict(
        name=name, up=up, begun=get(standing, 'calls.begun'), standing=get(standing, 'sessions_established'),
        lost=-ended(standing) - over[0], never_up=get(standing, 'calls.begun') - get(standing, 'sessions_established'),
        fresh=get(fresh, 'calls.begun'), failed=get(fresh, 'calls.begun') - get(fresh, 'sessions_established'),
        fresh_lost=-ended(fresh) - over[1], over=sum(over), hung=get(fresh, 'calls.failed.' + SILENT),
        unavailable=get(fresh, 'session_finals.503'), first_try_failed=len(bad), probes=len(probed),
        refused=sum(1 for p in bad if p['status'] == 503), slow=slow,
        with_retry_after=sum(1 for p in bad if p['status'] == 503 and p['retry_after']), left=left, notes=notes,
        **times(probed, fault))


def times(probed, fault):
    """Of the probe's calls, seconds after the fault: when the last one was begun that was not answered in time (`back`),
    or not at once (`moved`), each to the next call, which was; and the longest that one begun after the fault has waited
    for its final response."""
    after = [p for p in probed if p['sent'] >= fault]
    last = lambda calls: max((p['sent'] + STEP - fault for p in calls), default=0.0)
    return dict(
        back=last(p for p in probed if not p['ok'] and p['sent'] >= fault - PATIENCE),
        moved=last(p for p in after if p['status'] != 200 or p['took'] > AT_ONCE),
        waited=max((p['took'] for p in after), default=0.0))


def slower(report, seconds):
    """Calls whose set-up took longer than this, repetitions included."""
    setup = next(one['sent'] for one in report['latencies'] if one['key'] == 'setup')
    return sum(count for upper, count in setup['buckets'] if upper > seconds * 1e6)


def line(r):
    """For readers of a terminal."""
    text = ('%-22s %5d up; lost %d of %d; new: %d of %d failed, %d lost; every first attempt answered again after %.2f s '
            '(%d of %d were not)' % (r['name'], r['up'], r['lost'], r['standing'], r['failed'], r['fresh'], r['fresh_lost'],
                                     r['back'], r['first_try_failed'], r['probes']))
    if r['moved']:
        text += '; new calls answered at once after %.2f s, the longest begun after the fault took %.2f s' % (
            r['moved'], r['waited'])
    if r['slow']:
        text += '; of all new ones %d took over %.1f s' % (r['slow'], AT_ONCE)
    if r['hung']:
        text += '; %d new ones had a provisional response from who then failed, and nothing more' % r['hung']
    if r['never_up']:
        text += '; %d never came up' % r['never_up']
    if r['refused']:
        text += '; 503: %d, with Retry-After %d' % (r['refused'], r['with_retry_after'])
    if r['left']:
        text += '; %d calls still counted at the end' % r['left']
    return '\n    '.join([text] + r['notes'] + r['void'])


def table(results):
    """The same as lines of a table, for a record; below it what else was seen, but for call flows."""
    rows = ['| experiment | calls up | of them lost | new calls failed | new calls lost | answered again after | new calls moved after '
            '| the longest waited | of all over %.1f s | 503, with Retry-After | verdict |' % AT_ONCE, '|' + ' --- |' * 11]
    for r in results:
        said = verdicts.failure(r)
        rows.append('| %s | %d | %d of %d | %d of %d | %d | %.2f s | %.2f s | %.2f s | %d | %d, %d | %s |' % (
            r['name'], r['up'], r['lost'], r['standing'], r['failed'], r['fresh'], r['fresh_lost'], r['back'], r['moved'],
            r['waited'], r['slow'], r['refused'], r['with_retry_after'], 'not kept: ' + '; '.join(said) if said else 'kept'))
    notes = ['- %s: %s' % (r['name'], note) for r in results for note in r['notes'] + r['void'] if '\n' not in note]
    return rows + ([''] + notes if notes else [])


# ---------------------------------------------------------------- the client that never repeats
class Probe:
    """The same script, run where the callers are."""

    def __init__(self, scene, seconds):
        address, prefix, _ = scene.place.callers('probe')
        self.child = subprocess.Popen(
            prefix + [sys.executable, os.path.abspath(__file__), '--probe', address, scene.place.service, '%g' % seconds],
            stdout=subprocess.PIPE, text=True)
        scene.running.append(self)

    def stop(self):
        self.child.kill()
        self.child.wait()

    def result(self):
        return json.loads(self.child.stdout.readline())


def probe(ip, target, seconds):
    """Calls one after the other from several ports; what became of each, as JSON."""
    socks = []
    for _ in range(16):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((ip, 0))
        sock.setblocking(False)
        socks.append(sock)
    found, end, step = {}, time.time() + seconds, 0
    begun = time.time()

    def send(sock, method, uri, call_id, cseq, to, routes, branch):
        own = '%s:%d' % sock.getsockname()
        text = ['%s %s SIP/2.0' % (method, uri), 'Via: SIP/2.0/UDP %s;branch=%s' % (own, branch), 'Max-Forwards: 70',
                'From: <sip:probe@%s>;tag=p' % own, 'To: ' + to, 'Call-ID: ' + call_id, 'CSeq: %d %s' % (cseq, method),
                'Contact: <sip:probe@%s>' % own, *['Route: ' + r for r in routes], 'Content-Length: 0', '', '']
        try:
            sock.sendto('\r\n'.join(text).encode(), (target, 5060))
        except OSError:
            # Nobody listens there: said of an earlier message.
            pass

    def receive(sock):
        try:
            reply = net.Reply(sock.recv(65536))
        except OSError:
            return
        call_id = reply.get('Call-ID')
        one = found.get(call_id)
        if one is None or not reply.get('CSeq').endswith('INVITE') or reply.status < 200:
            return
        first = one['status'] == 0
        if first:
            one.update(status=reply.status, took=time.time() - one['sent'], retry_after=bool(reply.get('Retry-After')))
        to, contact = reply.get('To'), reply.get('Contact')
        if reply.status >= 300 or '<' not in contact:
            send(sock, 'ACK', one['uri'], call_id, 1, to, [], one['branch'])
            return
        routes = [r.strip() for v in reply.all('Record-Route') for r in v.split(',')][::-1]
        contact = contact.split('<')[1].split('>')[0]
        send(sock, 'ACK', contact, call_id, 1, to, routes, net.unique('z9hG4bKa'))
        if first:
            send(sock, 'BYE', contact, call_id, 2, to, routes, net.unique('z9hG4bKb'))

    told = False
    while True:
        if time.time() >= end and not told:
            # What is answered from now on has to be ended all the same: a phone that has gone away leaves calls behind.
            told = True
            for one in found.values():
                # Of one without an answer: so far.
                one['took'] = one['took'] if one['status'] else time.time() - one['sent']
                one['ok'] = one['status'] == 200 and one['took'] <= PATIENCE
            print(json.dumps(list(found.values())), flush=True)
        due = begun + step * STEP
        if time.time() >= due and due < end - PATIENCE:
            sock, call_id, uri = socks[step % len(socks)], net.unique('probe'), 'sip:b@' + DOMAIN
            found[call_id] = dict(sent=time.time(), status=0, took=0.0, retry_after=False, uri=uri,
                                  branch=net.unique('z9hG4bKi'))
            send(sock, 'INVITE', uri, call_id, 1, '<%s>' % uri, [], found[call_id]['branch'])
            step += 1
        for sock in socks:
            receive(sock)
        time.sleep(0.001 if not told else 0.02)


# ---------------------------------------------------------------- one balancer
@experiment(Loopback)
def node_killed(scene):
    """kill -9 of one of three nodes."""
    scene.nodes[0].kill()


def hang(scene, seconds=5):
    """A node neither works nor is gone: what comes to it lies in its sockets, and is done when it goes on."""
    scene.nodes[0].process.pause()
    try:
        time.sleep(seconds)
        state = scene.balancers[0].all_nodes()['%s:5060' % scene.nodes[0].ip]
        scene.say('it goes on after %d s, when the balancer says of it: %s' % (seconds, state['health']))
    finally:
        scene.nodes[0].process.go_on()


@experiment(Loopback)
def node_hung(scene):
    """One of three nodes hangs (SIGSTOP) for 5 s, and goes on with what came meanwhile."""
    hang(scene)


@experiment(Loopback, algorithm='round-robin')
def node_hung_in_turn(scene):
    """The same where each node is given new calls in turn, so that what is unfinished at it keeps none away."""
    hang(scene)


@experiment(Loopback)
def balancer_restarted(scene):
    """kill -9 of the only balancer, and started again at once."""
    balancer, = scene.balancers
    balancer.kill()
    started = time.monotonic()
    balancer.start()
    scene.say('ready again after %.2f s' % (time.monotonic() - started))


@experiment(Loopback, hold=2.0, after=24.0)
def node_flapping(scene):
    """One of three nodes is killed and started again, five times in 20 s."""
    for _ in range(5):
        scene.nodes[0].kill()
        time.sleep(2)
        scene.nodes[0].start()
        time.sleep(2)
    falls = scene.balancers[0].all_nodes()['%s:5060' % scene.nodes[0].ip]['falls']
    scene.say('the balancer saw %d falls' % falls)


@experiment(Loopback, hold=12.0, after=20.0)
def all_nodes_down(scene):
    """kill -9 of all nodes, and back after 8 s; calls that are up hang up later."""
    for node in scene.nodes:
        node.kill()
    time.sleep(8)
    for node in scene.nodes:
        node.start()


@experiment(Loopback)
def node_drained(scene):
    """One of three nodes is drained, and taken in again."""
    balancer, node = scene.balancers[0], scene.nodes[0]
    name = '%s:5060' % node.ip
    scene.say(balancer.ctl('drain', name).strip().split('\n')[0])
    # What was on its way to it, and may be repeated.
    time.sleep(1)
    had, calls = invites(node), balancer.all_nodes()[name]['calls']
    time.sleep(min(11.0, (scene.o.after or 18.0) / 2))
    scene.figures.update(had=had, given=invites(node) - had)
    scene.say('it had had %d INVITEs and had %d calls then, and %d INVITEs came to it until it was taken in again' % (
        had, calls, scene.figures['given']))
    balancer.ctl('undrain', name)
    again = had + scene.figures['given']

    def afterwards():
        scene.figures['again'] = invites(node) - again
        scene.say('and %d after that' % scene.figures['again'])
    return afterwards


def invites(node):
    """INVITEs of calls and of repetitions that a node has had, by its own count."""
    return int(node.metric('strowger_requests_received_total{method="INVITE"}'))


@experiment(Loopback, spare=1)
def node_added(scene):
    """A fourth node is added to three (ctl add-node), and gets its share of new calls."""
    balancer, node = scene.balancers[0], scene.nodes[-1]
    scene.say(balancer.ctl('add-node', 'sip:%s:5060' % node.ip).strip().split('\n')[0])

    def afterwards():
        each = [invites(n) for n in scene.nodes]
        scene.say('INVITEs at each node, the one that was added last: %s' % ', '.join('%d' % n for n in each))
        scene.figures['given'] = each[-1]
    return afterwards


@experiment(Loopback)
def node_removed(scene):
    """One of three nodes is taken out of the list (ctl remove-node): its calls go on there, and it gets no new ones."""
    balancer, node = scene.balancers[0], scene.nodes[0]
    scene.say(balancer.ctl('remove-node', '%s:5060' % node.ip).strip().split('\n')[0])
    # What was on its way to it, and may be repeated.
    time.sleep(1)
    had, calls = invites(node), balancer.all_nodes()['%s:5060' % node.ip]['calls']

    def afterwards():
        scene.figures['given'] = invites(node) - had
        scene.say('it had %d calls then, and %d INVITEs came to it after that' % (calls, scene.figures['given']))
    return afterwards


# ---------------------------------------------------------------- two balancers
@experiment(Active)
def active_one_killed(scene):
    """Two balancers behind equal routes (ECMP): kill -9 of one; its route goes when nothing listens there any more."""
    scene.balancers[0].kill()
    scene.place.watch(scene)


@experiment(Active)
def active_none_killed(scene):
    """The same with no fault at all: what two active balancers do to each other's counters."""
    def afterwards():
        for event in ('assigned', 'timed-out', 'retried'):
            each = [b.metric('strowger_balance_events_total{event="%s"}' % event) for b in scene.balancers]
            scene.say('transactions %s, at each: %s' % (event, ', '.join('%d' % n for n in each)))
            scene.figures[event] = sum(each)
        for balancer in scene.balancers:
            scene.say('of one, by nodes: %s' % ', '.join(str(n['assigned']) for n in balancer.all_nodes().values()))
    return afterwards


@experiment(Bird)
def bird_one_killed(scene):
    """Two active balancers whose addresses BIRD announces: kill -9 of one, and started again some seconds later."""
    balancer = scene.balancers[0]
    balancer.kill()
    scene.place.watch(scene)
    time.sleep(2)
    begun = time.monotonic()
    balancer.start()
    scene.place.reach('left', 'right')
    scene.say('routes lead to both %.2f s after it was started again' % (time.monotonic() - begun))


@experiment(Bird)
def bird_one_ended(scene):
    """The same with SIGTERM: its routes go while it still serves."""
    balancer = scene.balancers[0]
    begun = time.monotonic()
    balancer.process.terminate()
    scene.place.reach(scene.balancers[1].place)
    moved, alive = time.monotonic() - begun, balancer.process.running()
    net.poll('it has ended', 10, lambda: not balancer.process.running())
    scene.say('its routes were gone after %.2f s, it ended after %.2f s' % (moved, time.monotonic() - begun))
    scene.figures['alive'] = alive


@experiment(Standby)
def standby_process_killed(scene):
    """keepalived: kill -9 of the balancer that has the address; the other takes it."""
    scene.place.master(scene).kill()
    scene.place.watch(scene)


@experiment(Standby)
def standby_restarted(scene):
    """keepalived: SIGTERM of the balancer that has the address, and started again when it has ended."""
    balancer = scene.place.master(scene)
    begun = time.monotonic()
    balancer.process.terminate()
    took = lambda: time.monotonic() - begun
    net.poll('the address has moved', 10, lambda: scene.place.holders() not in ([balancer.place], []))
    moved, alive = took(), balancer.process.running()
    net.poll('it has ended', 10, lambda: not balancer.process.running())
    scene.say('the other has the address after %.2f s, it ended %s after %.2f s' % (
        moved, 'later,' if alive else 'BEFORE that,', took()))
    scene.figures['alive'] = alive
    balancer.start()
    time.sleep(2)
    scene.say('with the address afterwards: %d of 2' % len(scene.place.holders()))


@experiment(Standby)
def standby_machine_killed(scene):
    """keepalived: the machine that has the address goes away, all of it."""
    scene.place.cut(scene.place.master(scene))
    scene.place.watch(scene)


@experiment(Standby)
def standby_split_brain(scene):
    """keepalived: the two no longer hear each other, so that both have the address; 8 s later they do again."""
    scene.place.split(True)
    time.sleep(8)
    scene.say('with the address during the split: %d of 2' % len(scene.place.holders()))
    scene.place.split(False)
    time.sleep(2)
    scene.say('afterwards: %d of 2' % len(scene.place.holders()))


def small(binary, name):
    """One experiment in half a minute: its figures, or why it is left out."""
    missing = EXPERIMENTS[name][1].missing()
    o = argparse.Namespace(bin=binary, calls=300, rate=30, ramp_rate=60, workers=2, algorithm='tlwl', after=6.0, settle=False)
    return missing or measure(o, name)


def main():
    if sys.argv[1:2] == ['--probe']:
        return probe(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--calls', type=int, default=20000, help='calls up at the fault')
    p.add_argument('--rate', type=int, default=500, help='new calls a second')
    p.add_argument('--ramp-rate', type=int, help='at which the calls are set up and hung up; default: twice --rate')
    p.add_argument('--after', type=float, help='seconds that new calls go on at most, if an experiment has more')
    p.add_argument('--workers', type=int, default=2, help='of each balancer')
    p.add_argument('--algorithm', default='tlwl')
    p.add_argument('--record', default='lab/record', help='where the table and the figures are written')
    p.add_argument('--list', action='store_true', help='list the experiments')
    p.add_argument('names', nargs='*', metavar='NAME')
    o = p.parse_args()
    o.ramp_rate = o.ramp_rate or 2 * o.rate
    o.settle = True
    o.bin = os.path.abspath(o.bin)
    if o.list:
        for name, (function, *_) in EXPERIMENTS.items():
            print('%-22s %s' % (name, function.__doc__))
        return 0
    unknown = [n for n in o.names if n not in EXPERIMENTS]
    if unknown:
        p.error('no such experiment: %s (--list shows them)' % ', '.join(unknown))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results, troubled, left_out = [], False, []
    for name in o.names or EXPERIMENTS:
        missing = EXPERIMENTS[name][1].missing()
        if missing:
            print('%-22s left out: %s' % (name, missing), flush=True)
            left_out.append(name)
            continue
        results.append(measure(o, name))
        print(line(results[-1]), flush=True)
        troubled |= not verdicts.tell(name, verdicts.failure(results[-1]))
    if results:
        records.write(o.record, 'balance-failure', 'What callers notice when a node or a balancer fails', 1, table(results),
                      results, '%d calls up, %d new ones a second, each experiment once' % (o.calls, o.rate))
    if left_out:
        # What was not tried is not shown.
        print('not judged: %s' % ', '.join(left_out), flush=True)
    return 1 if troubled else 2 if left_out else 0


if __name__ == '__main__':
    sys.exit(main())
