"""Phones behind `strowger balance`, in front of two Strowgers and of two Kamailios."""
import os
import sys

import phones
from harness import net, servers
from scenarios import LeftOut, dismiss, must, scenario, talk

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

import balance_failure  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402

USERS = ('b1', 'b2', 'p1', 'p2')
SECRET = 'secret'


class Front(servers.Balancer):
    """A balancer that gives each node new calls in turn. `listen`: transports, or nothing for UDP alone."""

    def __init__(self, run, nodes, ip, config='', listen=()):
        addresses = [('%s' if '[' in n.ip or ':' not in n.ip else '[%s]') % n.ip + ':5060' for n in nodes]
        if listen:
            host = '[%s]' % ip if ':' in ip else ip
            config = 'listen = [%s]\n[balance]\nnodes = [%s]\n%s' % (
                ', '.join('"%s:%s:5060"' % (transport, host) for transport in listen),
                ', '.join('"sip:%s"' % address for address in addresses), config)
        super().__init__(run.bin, addresses, 2, 'round-robin', config, ip=ip, whole=bool(listen))
        self.domain = 'example.com'

    def start(self):
        super().start()
        net.poll('both nodes are up', 20, lambda: all(n['health'] == 'up' for n in self.all_nodes().values()))
        return self

    def assigned(self):
        return [node['assigned'] for node in self.all_nodes().values()]

    def one_node(self, what, call):
        """What is asked meanwhile all goes to the one node that has the call; how much that is."""
        before = self.assigned()
        call()
        given = [now - then for now, then in zip(self.assigned(), before)]
        must(sum(1 for n in given if n) == 1, what, 'asked of the nodes', given)
        return sum(given)

    def nothing_left(self):
        """No call and no transaction, by its counters and by its records, counted anew."""
        def left():
            lines = [line for line in self.page().splitlines() if line.startswith(
                ('strowger_balance_calls{', 'strowger_balance_transactions{', 'strowger_balance_work{'))]
            must(lines, 'the balancer has no counters')
            return [line for line in lines if float(line.rpartition(' ')[2])]
        try:
            net.poll('no call is counted any more', 40, lambda: not left())
        except AssertionError as error:
            raise AssertionError('%s: %s' % (error, left()))
        self.ctl('audit')


def speak(caller, callee):
    """A call of two PJSIP phones in which both hear something, and which the caller holds and takes up again."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    callee.answer()
    caller.wait('established')
    callee.wait('established')
    for phone in (caller, callee):
        net.poll('%s hears something' % phone, 10, phone.heard)
    callee.forget()
    caller.hold()
    callee.wait('held')
    caller.resume()
    callee.wait('speaking')
    callee.hangup()
    callee.wait('closed')
    caller.wait('closed')


def through(run, balancer_ip, nodes, transport='udp'):
    """Every phone calls every other through the balancer, callers and callees hang up, one gives up."""
    listen = ('udp', 'tcp') if transport == 'tcp' else ()
    with Front(run, nodes, balancer_ip, listen=listen) as balancer:
        crew = [kind(user, SECRET, balancer, transport, listening=True) for kind, user in (
            (phones.Baresip, 'b1'), (phones.Baresip, 'b2'), (phones.Pjsip, 'p1'), (phones.Pjsip, 'p2'))]
        started, calls = [], 0
        try:
            for phone in crew:
                started.append(phone)
                phone.start()
            for phone in crew:
                phone.wait('registered', 20)
            for caller in crew:
                for callee in crew:
                    if caller is not callee:
                        try:
                            balancer.one_node('%s to %s' % (caller, callee), lambda: talk(caller, callee))
                        except AssertionError as error:
                            raise AssertionError('%s to %s: %s' % (caller, callee, error))
                        calls += 1
            for caller, callee in zip(crew, crew[1:] + crew[:1]):
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                callee.answer()
                caller.wait('established')
                callee.wait('established')
                callee.hangup()
                caller.wait('closed')
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                caller.wait('ringing')
                caller.hangup()
                callee.wait('closed')
                caller.wait('closed')
                calls += 2
            for caller, callee in (crew[2:], crew[:1:-1]):
                balancer.one_node('%s to %s, held' % (caller, callee), lambda: speak(caller, callee))
                calls += 1
            balancer.nothing_left()
            each = balancer.assigned()
            must(all(n >= calls / 2 for n in each), 'a node was given', min(each), 'transactions of', calls, 'calls')
            return '%d calls between %d phones, %s transactions at the nodes' % (calls, len(crew), ' and '.join(map(str, each)))
        finally:
            dismiss(started)


def strowgers(run, transport):
    front, ips = net.fresh_ip(), (net.fresh_ip(), net.fresh_ip())
    nodes = []
    try:
        for own, other in (ips, ips[::-1]):
            config = ('aliases = ["%s"]\n[[trunk]]\nname = "other"\ntargets = ["sip:%s"]\nmay_transit = true\n'
                      '[[route]]\ndomain = "example.com"\ntargets = ["sip:example.com", "sip:%s"]\n' % (front, other, other))
            nodes.append(servers.Strowger(run.bin, 'example.com', 1, True, config=config, ip=own,
                                          users=[(u, SECRET) for u in USERS]))
            nodes[-1].start()
        return through(run, front, nodes, transport)
    finally:
        for node in nodes:
            node.__exit__()


@scenario
def balance_strowger(run):
    """Phones through `strowger balance` in front of two Strowgers, each of which asks the other for absent users."""
    return strowgers(run, 'udp')


@scenario
def balance_tcp(run):
    """The same over TCP from each phone to the balancer and from the nodes to each phone."""
    return strowgers(run, 'tcp')


@scenario
def balance_kamailio(run):
    """The same phones in front of two Kamailios that share their registrations by DMQ."""
    front, ips = net.fresh_ip(), (net.fresh_ip(), net.fresh_ip())
    nodes = []
    try:
        for own, peer in (ips, ips[::-1]):
            node = servers.Kamailio(os.path.join(HERE, 'kamailio_node.cfg'), [
                'OWN "sip:%s:5060"' % own, 'PEER "sip:%s:5060"' % peer], tcp=False)
            node.ip = own
            nodes.append(node)
            node.start()
        return through(run, front, nodes)
    finally:
        for node in nodes:
            node.__exit__()


def fails(run, name):
    """A small run of an experiment of balance_failure.py: no call is lost, and none that could be repeated fails."""
    found = balance_failure.small(run.bin, name)
    if isinstance(found, str):
        raise LeftOut(found)
    must(found['up'] >= 300, 'only', found['up'], 'calls were up')
    said = verdicts.failure(found, small=True)
    must(not said, '%s\n    %s' % ('; '.join(said), balance_failure.line(found)))
    return '%d calls up, none lost; %d of %d new ones failed' % (found['up'], found['failed'], found['fresh'])


def add(name):
    def function(run):
        return fails(run, name)
    function.__name__ = 'balance_' + name
    function.__doc__ = 'In small, of verify/bench/balance_failure.py: ' + balance_failure.EXPERIMENTS[name][0].__doc__
    scenario(function)


for each in ('node_killed', 'balancer_restarted', 'active_one_killed', 'active_none_killed', 'standby_process_killed',
             'standby_restarted'):
    add(each)
