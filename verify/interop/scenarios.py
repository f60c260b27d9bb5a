"""The scenarios of run.py. Each raises AssertionError when the server did not do what it should."""
import json
import os
import re
import socket
import threading
import time
import urllib.request

import phones
from harness import net, servers, sipp

HERE = os.path.dirname(os.path.abspath(__file__))
ALL = {}


class Run:
    """What the scenarios are run with."""

    def __init__(self, binary, smoke):
        self.bin, self.smoke = binary, smoke

    def size(self, full, small):
        return small if self.smoke else full


def scenario(function):
    ALL[function.__name__] = function
    return function


def status(server):
    """The admin API's word on the state of a running Strowger."""
    with urllib.request.urlopen('http://%s/v1/status' % server.admin, timeout=30) as answer:
        return json.load(answer)


class LeftOut(Exception):
    """This machine cannot do it; says why."""


def must(condition, *words):
    if not condition:
        raise AssertionError(' '.join(map(str, words)))


# ---------------------------------------------------------------- phones
def crew(server, transports=('udp', 'tcp')):
    """Two baresip and two PJSIP phones over each transport, registered."""
    return registered([kind('%s%d%s' % (kind.kind[0], n, transport), 'secret', server, transport)
                       for transport in transports for kind in (phones.Baresip, phones.Pjsip) for n in (1, 2)])


def registered(out, seconds=20):
    """Starts these phones and waits until all are registered."""
    started = []
    try:
        for phone in out:
            started.append(phone)
            phone.start()
        for phone in out:
            phone.wait('registered', seconds)
    except BaseException:
        dismiss(started)
        raise
    return out


CREW = [('%s%d%s' % (k, n, t), 'secret') for t in ('udp', 'tcp') for k in 'bp' for n in (1, 2)]


def dismiss(crew_):
    for phone in crew_:
        try:
            phone.stop()
        except Exception:  # one that never started must not keep the others running
            pass


def set_up(caller, callee):
    """A call that is answered."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    callee.answer()
    caller.wait('established')
    callee.wait('established')


def talk(caller, callee):
    """A call that is answered and ended by the caller."""
    set_up(caller, callee)
    caller.hangup()
    callee.wait('closed')
    caller.wait('closed')


@scenario
def phones_all_pairs(run):
    """Two baresip and two PJSIP phones over UDP and over TCP: every phone calls every other."""
    with servers.Strowger(run.bin, workers=2, users=CREW) as server:
        all_ = crew(server)
        try:
            calls = 0
            for caller in all_:
                for callee in all_:
                    if caller is not callee:
                        try:
                            talk(caller, callee)
                        except AssertionError as error:
                            raise AssertionError('%s to %s: %s' % (caller, callee, error))
                        calls += 1
            return '%d calls between %d phones' % (calls, len(all_))
        finally:
            dismiss(all_)


@scenario
def phones_callee_hangs_up(run):
    """The called phone ends the call, over both transports and both kinds."""
    with servers.Strowger(run.bin, workers=2, users=CREW) as server:
        all_ = crew(server)
        try:
            for caller, callee in zip(all_, all_[3:] + all_[:3]):
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                callee.answer()
                caller.wait('established')
                callee.wait('established')
                callee.hangup()
                caller.wait('closed')
            return '%d calls' % len(all_)
        finally:
            dismiss(all_)


@scenario
def phones_cancel(run):
    """The caller gives up while it rings: the callee stops ringing, the caller gets 487."""
    with servers.Strowger(run.bin, workers=2, users=CREW) as server:
        all_ = crew(server)
        try:
            calls = 0
            for caller, callee in zip(all_, all_[2:] + all_[:2]):
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                caller.wait('ringing')
                caller.hangup()
                callee.wait('closed')
                ended = caller.wait('closed')
                must(caller.kind != 'pjsip' or ended['code'] == 487, caller, 'got', ended)
                calls += 1
            return '%d calls' % calls
        finally:
            dismiss(all_)


class Voicemail:
    """Something that answers every call, and a Strowger that diverts to it for these reasons."""

    def __init__(self, run, reasons):
        self.answerer = net.Answerer()
        config = '[voicemail]\ntarget = "sip:voicemail@%s:5060"\non = [%s]\nno_answer_timeout = "1s"\n' % (
            self.answerer.ip, ', '.join('"%s"' % r for r in reasons))
        self.server = servers.Strowger(run.bin, workers=2, users=CREW, config=config)

    def __enter__(self):
        try:
            self.server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.server.__exit__()
        self.answerer.close()

    def took(self, n, *causes):
        """Voicemail must have had n whole calls, each told one of these causes (RFC 4458)."""
        net.poll('voicemail has taken %d calls' % n, 15, lambda: len(self.answerer.ended) >= n)
        for uri in self.answerer.called.values():
            must(any('cause=%d' % c in uri for c in causes), 'voicemail was called as', uri)


@scenario
def voicemail_no_answer(run):
    """A call that nobody answers goes to voicemail after the timeout; the phone stops ringing."""
    with Voicemail(run, ['no-answer']) as vm:
        all_ = crew(vm.server)
        try:
            pairs = list(zip(all_, all_[1:] + all_[:1]))
            for caller, callee in pairs:
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                caller.wait('established')
                callee.wait('closed')
                caller.hangup()
                caller.wait('closed')
            vm.took(len(pairs), 408)
            return '%d calls' % len(pairs)
        finally:
            dismiss(all_)


@scenario
def voicemail_busy(run):
    """A busy phone's call goes to voicemail."""
    with Voicemail(run, ['busy']) as vm:
        all_ = crew(vm.server)
        try:
            pairs = list(zip(all_, all_[1:] + all_[:1]))
            for caller, callee in pairs:
                caller.forget()
                callee.forget()
                caller.call(callee.uri)
                callee.wait('incoming')
                callee.busy()
                caller.wait('established')
                caller.hangup()
                caller.wait('closed')
            vm.took(len(pairs), 486)
            return '%d calls' % len(pairs)
        finally:
            dismiss(all_)


@scenario
def voicemail_unregistered(run):
    """A subscriber without a phone: straight to voicemail."""
    with Voicemail(run, ['unregistered']) as vm:
        all_ = crew(vm.server, ('udp',))
        try:
            for caller in all_:
                caller.forget()
                caller.call('sip:b1tcp@example.com')
                caller.wait('established')
                caller.hangup()
                caller.wait('closed')
            vm.took(len(all_), 404, 480)
            return '%d calls' % len(all_)
        finally:
            dismiss(all_)


# ---------------------------------------------------------------- trunk
class Chain:
    """Strowger A, Kamailio, Strowger B: each Strowger has Kamailio as its trunk to the other's domain."""

    def __init__(self, run):
        carrier = net.fresh_ip()

        def side(own, other, user):
            config = ('[[trunk]]\nname = "carrier"\ntargets = ["sip:%s:5060"]\nsources = ["%s"]\ndomains = ["%s"]\n'
                      % (carrier, carrier, other))
            return servers.Strowger(run.bin, own, 2, config=config, users=[(user, 'secret'), (user + '2', 'secret')])

        self.a, self.b = side('a.example', 'b.example', 'ann'), side('b.example', 'a.example', 'ben')
        self.carrier = servers.Kamailio(os.path.join(HERE, 'kamailio_trunk.cfg'),
                                        ['A "%s:5060"' % self.a.ip, 'B "%s:5060"' % self.b.ip])
        self.carrier.ip = carrier

    def __enter__(self):
        try:
            for server in (self.carrier, self.a, self.b):
                server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in (self.a, self.b, self.carrier):
            server.__exit__()


@scenario
def trunk_phones(run):
    """Strowger to Kamailio to Strowger with real phones, both directions, either side hanging up."""
    with Chain(run) as chain:
        out = []
        try:
            for kind, server, user, transport in ((phones.Pjsip, chain.a, 'ann', 'udp'), (phones.Baresip, chain.b, 'ben', 'tcp'),
                                                  (phones.Baresip, chain.a, 'ann2', 'tcp'), (phones.Pjsip, chain.b, 'ben2', 'udp')):
                out.append(kind(user, 'secret', server, transport))
                out[-1].start()
            for phone in out:
                phone.wait('registered', 20)
            for caller, callee in ((0, 1), (1, 0), (2, 3), (3, 2), (0, 3), (3, 0)):
                talk(out[caller], out[callee])
            ann, ben = out[0], out[1]
            ann.call(ben.uri)
            ben.wait('incoming')
            ben.answer()
            ann.wait('established')
            ben.wait('established')
            ben.hangup()
            ann.wait('closed')
            return '7 calls'
        finally:
            dismiss(out)


class Callee:
    """A raw UDP callee that keeps what it receives, for a look at every header field."""

    def __init__(self, server, user, password):
        self.client = net.Client(server.address, user, password, server.domain)
        reply = self.client.register('sip:%s@%s:5060' % (user, self.client.ip))
        must(reply and reply.status == 200, 'registration of', user, reply and reply.start)

    def receive(self, method, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.client.sock.settimeout(max(0.01, end - time.monotonic()))
            try:
                raw, self.peer = self.client.sock.recvfrom(65536)
            except socket.timeout:
                break
            if raw.startswith(method.encode() + b' '):
                return net.Reply(raw)
        raise AssertionError('no %s arrived' % method)

    def reply(self, request, code, contact=True):
        lines = ['SIP/2.0 %d Test' % code]
        for name in ('Via', 'Record-Route', 'From', 'To', 'Call-ID', 'CSeq'):
            for value in request.all(name):
                lines.append('%s: %s%s' % (name, value, ';tag=callee' if name == 'To' and ';tag=' not in value else ''))
        if contact:
            lines.append('Contact: <sip:%s@%s:5060>' % (self.client.user, self.client.ip))
        self.client.sock.sendto('\r\n'.join(lines + ['Content-Length: 0', '', '']).encode(), self.peer)


@scenario
def trunk_record_route(run):
    """Through the same chain: every proxy's Record-Route arrives, in order, and in-dialog requests follow it."""
    with Chain(run) as chain:
        callee = Callee(chain.b, 'ben', 'secret')
        caller = net.Client(chain.a.address, 'ann', 'secret', 'a.example')
        try:
            got = {}

            def call():
                got['reply'] = caller.ask('INVITE', 'sip:ben@b.example', lines=[
                    'Contact: <sip:ann@%s:5060>' % caller.ip])
            thread = threading.Thread(target=call)
            thread.start()
            invite = callee.receive('INVITE', 20)
            route = ', '.join(invite.all('Record-Route'))
            hosts = re.findall(r'<sip:(?:[^@>]*@)?([0-9.]+)', route)
            order = [h for i, h in enumerate(hosts) if i == 0 or hosts[i - 1] != h]
            must(order == [chain.b.ip, chain.carrier.ip, chain.a.ip], 'Record-Route by', order)
            callee.reply(invite, 200)
            thread.join(20)
            must(got.get('reply') and got['reply'].status == 200, 'the caller got', got.get('reply') and got['reply'].start)
            back = ', '.join(got['reply'].all('Record-Route'))
            must(re.findall(r'<sip:(?:[^@>]*@)?([0-9.]+)', back) == hosts, 'the 200 has another Record-Route')
            caller.in_dialog('ACK', got['reply'])
            must(not callee.receive('ACK').all('Route'), 'a Route is left over in the ACK')
            thread = threading.Thread(target=lambda: got.update(bye=caller.in_dialog('BYE', got['reply'])))
            thread.start()
            bye = callee.receive('BYE')
            must(len(bye.all('Via')) == 4, 'the BYE came past', len(bye.all('Via')) - 1, 'proxies')
            callee.reply(bye, 200, contact=False)
            thread.join(20)
            must(got.get('bye') and got['bye'].status == 200, 'the BYE got', got.get('bye') and got['bye'].start)
            return '%d Record-Route entries over 3 proxies' % len(hosts)
        finally:
            caller.close()
            callee.client.close()


# ---------------------------------------------------------------- SIPp
def finish(load, seconds, total, forgiven=set):
    """SIPp must end by itself with every call done, but those whose Call-IDs are `forgiven()`."""
    code = load.wait(seconds)
    sums = load.totals()
    lost = load.given_up() if sums['failed'] else set()
    must(sums['ok'] + len(lost) == total and sums['failed'] == len(lost) and lost <= forgiven() and
         code == (1 if lost else 0),
         'SIPp ended with %s: %s\n%s' % (code, sums, load.errors()))
    return sums


@scenario
def sipp_uac_uas(run):
    """SIPp's built-in uac calls its built-in uas; neither knows Record-Route."""
    with servers.Strowger(run.bin, domain='{ip}', workers=2, auth=False) as server:
        uas = sipp.Sipp('-sn uas')
        try:
            net.register_block(server.address, ['service'], uas.ip, 5060, server.ip)
            total = run.size(1000, 100)
            uac = sipp.Sipp('-sn uac', server.address, rate=100, calls=total)
            sums = finish(uac, 90, total)
            return '%d calls, %d retransmissions' % (total, sums['retransmissions'])
        finally:
            uas.stop()


@scenario
def sipp_branchc(run):
    """SIPp's built-in branchc registers, then calls, all in one Call-ID."""
    # Its addresses are its own: CA.cym.com is the proxy, nnl.cym the users' domain.
    with servers.Strowger(run.bin, domain='ca.cym.com', also=['nnl.cym'], workers=2, auth=False) as server:
        uas = sipp.Sipp('-sn uas')
        try:
            net.register_block(server.address, ['ua2'], uas.ip, 5060, 'CA.cym.com')
            total = run.size(50, 20)
            branchc = sipp.Sipp('-sn branchc', server.address, rate=20, calls=total)
            finish(branchc, 60, total)
            return '%d calls' % total
        finally:
            uas.stop()


@scenario
def sipp_register_variants(run):
    """Register, refresh with other parameters, fetch, remove: with digest, over UDP and TCP."""
    total = run.size(500, 50)
    with servers.Strowger(run.bin, workers=2, users=[(user(i), secret(i)) for i in range(total)]) as server:
        for transport in ('u1', 't1', 'tn'):
            rows = [(user(i), credentials(i)) for i in range(total)]
            load = sipp.Sipp('register_life.xml', server.address, rate=50, calls=total, rows=rows, transport=transport,
                             keys=[('domain', server.domain)], extra=['-max_socket', '2000'] if transport == 'tn' else [])
            finish(load, 90, total)
            left = status(server)['bindings']
            must(left == 0, left, 'bindings are left over', transport)
    return '%d users over UDP, one TCP connection, one connection each' % total


def user(i):
    return 'u%06d' % i


def secret(i):
    return 'pw%06d' % i


def credentials(i):
    return '[authentication username=%s password=%s]' % (user(i), secret(i))


def proxy200(run, digest):
    """The SIPstone call through two workers: all complete; nothing is sent twice, unless it is a smoke run."""
    rate, seconds = run.size((500, 60), (200, 6))
    callees, callers = 1000, 1000
    # A machine that stands still makes its server overloaded: what is refused then is another test's subject.
    challenge = '["INVITE", "BYE"]' if digest else '[]'
    users = [(user(i), secret(i)) for i in range(callees + callers)]
    with servers.Strowger(run.bin, workers=2, auth=digest, users=users if digest else (),
                          config='[auth]\nin_dialog = true\nchallenge = %s\n[overload]\nenabled = false\n' % challenge) as server:
        callee = sipp.Sipp('callee.xml')
        try:
            net.register_block(server.address, [user(i) for i in range(callees)], callee.ip, 5060, server.domain)
            rows = [(user(i), user(callees + i)) + ((credentials(callees + i),) if digest else ()) for i in range(callees)]
            total = rate * seconds
            caller = sipp.Sipp('caller_digest.xml' if digest else 'caller.xml', server.address, rate=rate, calls=total,
                               limit=20000, rows=rows, keys=[('domain', server.domain)])
            # Beside other tests, a callee of SIPp that was kept from running ends calls that no user agent would.
            sums = finish(caller, seconds + 60, total, callee.given_up if run.smoke else set)
            again = sums['retransmissions'] + callee.totals()['retransmissions']
            # A generator that the machine kept from running repeats requests by itself: a smoke run, beside
            # other tests, only reports them.
            must(run.smoke or again == 0, again, 'retransmissions')
            crossed, came = server.metric('strowger_udp_hops_total'), server.metric('strowger_udp_in_total')
            grade = 'kernel' if server.metric('strowger_steering{grade="kernel"}') else 'ring'
            must(crossed == 0 or grade == 'ring', crossed, 'datagrams crossed workers although the kernel steers')
            return '%d calls at %d/s, %d retransmissions; %d of %d datagrams crossed workers (%s)' % (
                total, rate, again, crossed, came, grade)
        finally:
            callee.stop()


ALL['proxy200'] = lambda run: proxy200(run, False)
ALL['proxy200'].__doc__ = 'SIPstone Proxy 200 without credentials, two workers: 500 calls/s for 60 s'
ALL['proxy200_digest'] = lambda run: proxy200(run, True)
ALL['proxy200_digest'].__doc__ = 'The same with digest on INVITE and BYE'


@scenario
def register_crash(run):
    """100,000 users register with digest at up to 2,000/s; kill -9; restart; every binding is there."""
    total, rate = run.size((100000, 2000), (2000, 500))
    with servers.Strowger(run.bin, workers=2, users=[(user(i), secret(i)) for i in range(total)]) as server:
        rows = [(user(i), credentials(i)) for i in range(total)]
        load = sipp.Sipp('register.xml', server.address, rate=rate, calls=total, limit=20000, rows=rows,
                         keys=[('domain', server.domain)])
        started = time.monotonic()
        finish(load, total / rate * 3 + 60, total)
        took = time.monotonic() - started
        # A 200 is a promise within one second.
        time.sleep(1)
        server.kill()
        started = time.monotonic()
        server.start()
        back = time.monotonic() - started
        found = status(server)['bindings']
        must(found == total, '%d of %d bindings after kill -9' % (found, total))
        for i in range(0, total, max(1, total // 20)):
            phone = net.Client(server.address, user(i), secret(i), server.domain)
            try:
                reply = phone.register()
                must(reply and reply.status == 200 and user(i) + '@' in reply.get('Contact'), user(i), 'is gone')
            finally:
                phone.close()
        return '%d registrations at %.0f/s; back in %.1f s' % (total, total / took, back)
