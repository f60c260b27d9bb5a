"""Phones over TLS and browsers behind `strowger balance`, in front of Strowgers over UDP and TLS, or of Kamailios over TLS."""
import os
import shutil
import tempfile

import phones
from balancers import SECRET, Front
from browsers import Browser
from harness import net, servers
from harness.authority import Authority
from scenarios import dismiss, must, registered, scenario, set_up, talk
from secure_trunks import OWN, SIDE

HERE = os.path.dirname(os.path.abspath(__file__))
USERS = ('b1', 'b2', 'p1', 'p2', 'jssip')
NODE = 'node.example'


class Secure(Front):
    """A balancer over TLS and WSS, and over UDP for the nodes; `nodes`: their URIs. Its certificate is of the authority."""

    def __init__(self, run, nodes, ip, authority):
        self.chain, key = authority.issue('front', ['example.com', 'IP:' + ip])
        config = ('listen = ["udp:%s:5060", "tls:%s:5061", "wss:%s:5443"]\n[tls]\ncertificates = [{ chain = "%s", key = "%s" }]\n'
                  'roots = "%s"\n[balance]\npath = "always"\nnodes = [%s]\n' % (
                      ip, ip, ip, self.chain, key, authority.roots, ', '.join('"%s"' % n for n in nodes)))
        servers.Balancer.__init__(self, run.bin, nodes, 2, 'round-robin', config, ip=ip, whole=True)
        self.authority, self.domain, self.admin = authority, 'example.com', '%s:8080' % net.fresh_ip()

    def place(self, transport):
        return (self.ip, {'tls': 5061, 'wss': 5443}.get(transport, 5060))


class Site:
    """Two Strowgers, each of which asks the other for absent users. The balancer reaches the first over UDP, the second over TLS."""

    def __init__(self, run):
        self.dir, self.nodes, ip = tempfile.mkdtemp(prefix='strowger-secure-'), [], net.fresh_ip()
        self.authority = Authority(os.path.join(self.dir, 'tls'))
        ips = net.fresh_ip(), net.fresh_ip()
        for own, other in (ips, ips[::-1]):
            config = ('aliases = ["%s"]\n[tls]\nroots = "%s"\n[[trunk]]\nname = "other"\ntargets = ["sip:%s"]\nmay_transit = true\n'
                      '[[route]]\ndomain = "example.com"\ntargets = ["sip:example.com", "sip:%s"]\n'
                      '[auth]\nfronts = ["%s"]\n' % (ip, self.authority.roots, other, other, ip))
            self.nodes.append(servers.Strowger(run.bin, 'example.com', 1, True, config=config, ip=own, secure=self.authority,
                                               users=[(u, SECRET) for u in USERS]))
        uris = ['sip:%s:5060;transport=udp' % ips[0], 'sip:%s:5061;transport=tls;verify=example.com' % ips[1]]
        self.front = Secure(run, uris, ip, self.authority)

    def __enter__(self):
        try:
            for one in (*self.nodes, self.front):
                one.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in (self.front, *self.nodes):
            one.__exit__()
        shutil.rmtree(self.dir, ignore_errors=True)

    def busy(self):
        """The node that has the call, and its name at the balancer."""
        name = next(name for name, node in self.front.all_nodes().items() if node['calls'])
        return next(n for n in self.nodes if n.ip == name.partition(':')[0]), name


def crew(front):
    """Two baresip and two PJSIP phones over TLS."""
    return registered([kind(user, SECRET, front, 'tls', listening=True) for kind, user in (
        (phones.Baresip, 'b1'), (phones.Baresip, 'b2'), (phones.Pjsip, 'p1'), (phones.Pjsip, 'p2'))])


def all_pairs(front, all_):
    for caller in all_:
        for callee in all_:
            if caller is not callee:
                try:
                    front.one_node('%s to %s' % (caller, callee), lambda: talk(caller, callee))
                except AssertionError as error:
                    raise AssertionError('%s to %s: %s' % (caller, callee, error))
    return len(all_) * (len(all_) - 1)


@scenario
def balance_tls(run):
    """Phones over TLS call each other through a balancer with a node over UDP and a node over TLS. Names are verified."""
    with Site(run) as site:
        all_ = crew(site.front)
        try:
            calls = all_pairs(site.front, all_)
            for caller, callee in zip(all_, all_[1:] + all_[:1]):
                set_up(caller, callee)
                callee.hangup()
                caller.wait('closed')
                calls += 1
            site.front.nothing_left()
            each = site.front.assigned()
            must(all(n >= calls / 2 for n in each), 'a node received', min(each), 'transactions of', calls, 'calls')
            must(site.nodes[1].metric('strowger_tls_handshakes_total') >= 1, 'no TLS connection to the node')
            must(not site.front.metric('strowger_tls_unproven_total'), 'a name was not proven')
            return '%d calls between %d phones, %s transactions at the nodes' % (calls, len(all_), ' and '.join(map(str, each)))
        finally:
            dismiss(all_)


@scenario
def balance_tls_node_killed(run):
    """The node with a call of phones over TLS is killed: the call continues, and the other node gets all later calls."""
    with Site(run) as site:
        all_ = crew(site.front)
        caller, callee = all_[2:]
        try:
            for victim in site.nodes[::-1]:
                # Each worker gives its calls to the nodes in turn.
                for _ in range(12):
                    set_up(caller, callee)
                    node, name = site.busy()
                    if node is victim:
                        break
                    caller.hangup()
                    callee.wait('closed')
                    site.front.nothing_left()
                must(node is victim, 'no call came to', victim.ip)
                node.kill()
                net.poll('the node is down', 20, lambda: site.front.all_nodes()[name]['health'] == 'down')
                for phone in (caller, callee):
                    before = phone.heard()
                    net.poll('%s hears more' % phone, 10, lambda: phone.heard() > before)
                for phone in (caller, callee):
                    phone.hangup()
                    phone.wait('closed', 40)
                for phone in all_[2:]:
                    phone.forget()
                    phone.register()
                    phone.wait('registered', 30)
                for pair in ((caller, callee), (callee, caller)):
                    talk(*pair)
                node.start()
                net.poll('the node is up', 20, lambda: site.front.all_nodes()[name]['health'] == 'up')
                for phone in all_[2:]:
                    phone.register()
                    phone.wait('registered', 30)
            return 'each of two nodes killed with a call, 4 calls after that'
        finally:
            dismiss(all_)


@scenario
def balance_browser(run):
    """JsSIP in Chromium over WSS calls a phone over UDP through a balancer, and is called. Calls go on after its restart."""
    with Site(run) as site:
        phone = phones.Baresip('b1', SECRET, site.front, 'udp', webrtc=True)
        (browser,) = registered([Browser('jssip', site.front)], 60)
        pair = [browser, phone]
        try:
            registered([phone])
            talk(*pair)
            for caller, callee in (pair[::-1], pair):
                set_up(caller, callee)
                browser.forget()
                site.front.kill()
                site.front.start()
                browser.wait('registered', 60)
                # The node that the phone called has the browser's registration; the other one need not have it.
                caller.hangup()
                callee.wait('closed')
                talk(caller, callee)
            must(not site.front.metric('strowger_websocket_faults_total'), 'faults of WebSocket')
            site.front.nothing_left()
            return '5 calls over 2 restarts'
        finally:
            dismiss(pair)


class Kamailios:
    """Two Kamailios over TLS that share their registrations by DMQ. Each requires the balancer's certificate, and verifies it."""

    def __init__(self, run):
        self.dir, self.nodes, ip = tempfile.mkdtemp(prefix='strowger-secure-'), [], net.fresh_ip()
        authority = Authority(os.path.join(self.dir, 'tls'))
        file = os.path.join(self.dir, 'tls.cfg')
        shown = OWN % authority.issue(NODE)
        with open(file, 'w') as f:
            f.write(''.join(SIDE % (side, authority.roots) + shown for side in ('server', 'client')))
        ips = net.fresh_ip(), net.fresh_ip()
        for own, peer in (ips, ips[::-1]):
            node = servers.Kamailio(os.path.join(HERE, 'kamailio_node.cfg'), [
                'WITH_TLS "%s"' % file, 'OWN_IP %s' % own, 'OWN "sip:%s:5060"' % own, 'PEER "sip:%s:5060"' % peer], tcp=False)
            node.ip, node.secure = own, True
            self.nodes.append(node)
        self.front = Secure(run, ['sip:%s:5061;transport=tls;verify=%s' % (own, NODE) for own in ips], ip, authority)

    __enter__, __exit__ = Site.__enter__, Site.__exit__


@scenario
def balance_kamailio_tls(run):
    """Phones over TLS call each other through a balancer with two Kamailios over TLS, with certificates in both directions."""
    with Kamailios(run) as site:
        all_ = crew(site.front)
        try:
            calls = all_pairs(site.front, all_)
            for caller, callee in zip(all_, all_[1:] + all_[:1]):
                set_up(caller, callee)
                callee.hangup()
                caller.wait('closed')
                calls += 1
            site.front.nothing_left()
            must(not site.front.metric('strowger_tls_unproven_total'), 'a name was not proven')
            each = site.front.assigned()
            must(all(n >= calls / 2 for n in each), 'a node received', min(each), 'transactions of', calls, 'calls')
            return '%d calls between %d phones, %s transactions at the nodes' % (calls, len(all_), ' and '.join(map(str, each)))
        finally:
            dismiss(all_)
