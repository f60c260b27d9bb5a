"""Phones behind `strowger balance`, in front of two Strowgers and of two Kamailios."""
import os
import sys

import phones
from harness import net, servers, sipp
from scenarios import LeftOut, dismiss, finish, must, scenario, set_up, talk

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'bench'))

import balance_failure  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402

USERS = ('b1', 'b2', 'p1', 'p2')
SECRET = 'secret'


class Front(servers.Balancer):
    """A balancer that gives each node new calls in turn. `listen`: on these, or on UDP alone; `way`: how nodes are reached."""

    def __init__(self, run, nodes, ip, config='', listen=(), way=''):
        addresses = ['%s:%d' % n.address for n in nodes]
        if listen:
            config = 'listen = [%s]\n[balance]\nnodes = [%s]\n%s' % (
                ', '.join('"%s"' % one for one in listen), ', '.join('"sip:%s%s"' % (one, way) for one in addresses), config)
        super().__init__(run.bin, addresses, 2, 'round-robin', config, ip=ip, whole=bool(listen))
        self.domain, self.admin = 'example.com', '%s:8080' % net.fresh_ip()

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
    set_up(caller, callee)
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
    listen = ['%s:%s:5060' % (each, balancer_ip) for each in ('udp', 'tcp')] if transport == 'tcp' else ()
    with Front(run, nodes, balancer_ip, listen=listen, way=';transport=tcp' if listen else '') as balancer:
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
                set_up(caller, callee)
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
                      '[[route]]\ndomain = "example.com"\ntargets = ["sip:example.com", "sip:%s"]\n'
                      '[auth]\nfronts = ["%s"]\n' % (front, other, other, front))
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
    """The same over TCP from each phone to the balancer, from there to the nodes, and from these to each phone."""
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


class Pair:
    """Two Strowgers that take calls from the balancer alone, and one SIPp behind both. An IPv6 address has its brackets; all
    have the one address there, and ports of their own."""

    def __init__(self, run, ip=None):
        self.run, self.started = run, []
        # IPv6 has one address of loopback only.
        at = (lambda: (ip, sipp.free_port(ip))) if ip else (lambda: (net.fresh_ip(), 5060))
        self.front, self.phone, *places = [at() for _ in range(4)]
        self.nodes = []
        for place in places:
            config = '[[trunk]]\nname = "front"\ntargets = ["sip:%s:%d"]\nsources = ["%s"]\nmay_transit = true\n' % (
                *self.front, self.front[0].strip('[]'))
            config += '[[route]]\ndomain = "example.com"\ntargets = ["sip:%s:%d"]\n' % self.phone
            node = servers.Strowger(run.bin, 'node.test', 1, False, config=config, ip=place[0])
            node.port, node.admin = place[1], '%s:8080' % net.fresh_ip()
            self.nodes.append(node)

    def __enter__(self):
        try:
            ip, port = self.phone
            self.started.append(sipp.Sipp('held_callee.xml', ip=ip, port=port))
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in self.started:
            one.stop()
        for node in self.nodes:
            node.__exit__()

    def seen(self):
        """Requests of calls at each node, by its own count."""
        return [sum(int(node.metric('strowger_requests_received_total{method="%s"}' % method)) for method in (
            'INVITE', 'ACK', 'BYE')) for node in self.nodes]

    def held(self, balancer, calls, rate):
        """Calls that are up, held, taken up again and ended; what the caller has read of Record-Route."""
        ip = self.front[0] if ':' in self.front[0] else net.fresh_ip()
        caller = sipp.Sipp('held_caller.xml', balancer.address, ip=ip, port=sipp.free_port(ip), rate=rate, calls=calls,
                           rows=[('bob', 'ann')], keys=[('domain', 'example.com')],
                           extra=['-trace_msg', '-message_file', 'messages.log'])
        self.started.append(caller)
        finish(caller, 60, calls)
        with open(os.path.join(caller.dir, 'messages.log'), errors='replace') as f:
            return [line for line in f if line.startswith('Record-Route:')]

    def check(self, config='', named=True):
        """One call after the other, each at one node and nowhere else; then many at once; then nothing is left. `named`: the
        balancer stands in Record-Route."""
        listen = ['udp:%s:%d' % self.front]
        with Front(self.run, self.nodes, self.front[0], config, listen) as balancer:
            balancer.port = self.front[1]
            for n in range(4):
                before = self.seen()
                # INVITE, two to hold it and to take it up again, BYE.
                asked = balancer.one_node('call %d' % n, lambda: self.held(balancer, 1, 1))
                came = [now - then for now, then in zip(self.seen(), before)]
                must(asked == 4 and sorted(came)[0] == 0 and sorted(came)[1] >= 7, 'call', n, 'has asked a node for', asked,
                     'transactions, and nodes have seen requests:', came)
            total = self.run.size(200, 60)
            routes = self.held(balancer, total, 30)
            own = sum(1 for line in routes if '%s:%d' % self.front in line)
            must(routes and own == (len(routes) if named else 0), 'the balancer is in', own, 'of', len(routes), 'Record-Route')
            balancer.nothing_left()
            each = balancer.assigned()
            must(sum(each) == 4 * (total + 4), 'the nodes were asked', each, 'in', total + 4, 'calls')
            return '%d calls held, %s transactions at the nodes' % (total + 4, ' and '.join(map(str, each)))


@scenario
def balance_ipv6(run):
    """SIPp calls SIPp by way of a balancer and two Strowgers that have IPv6 addresses alone; each call is held."""
    try:
        sipp.free_port('[::1]')
    except OSError as error:
        raise LeftOut('no IPv6 on loopback: %s' % error)
    with Pair(run, '[::1]') as pair:
        return pair.check()


@scenario
def balance_transparent(run):
    """The same by IPv4 with record_route = false: callers send all to the balancer, which says nothing of itself."""
    with Pair(run) as pair:
        return pair.check('record_route = false\n', named=False)


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
    function.__doc__ = 'In small, of verify/interop/balance_failure.py: ' + balance_failure.EXPERIMENTS[name][0].__doc__
    scenario(function)


for each in ('node_killed', 'node_hung_in_turn', 'all_nodes_down', 'node_drained', 'balancer_restarted',
             'active_one_killed', 'active_none_killed', 'bird_one_killed', 'bird_one_ended',
             'standby_process_killed', 'standby_restarted'):
    add(each)
