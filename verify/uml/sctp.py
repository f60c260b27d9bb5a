#!/usr/bin/env python3
"""SIP over SCTP with real associations. To be run inside user-mode Linux, where the kernel has SCTP:

    verify/uml/run.sh verify/uml/sctp.py --bin FILE [CLASS[.TEST]...]
"""
import argparse
import contextlib
import itertools
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import rig
from rig import (LIMIT, SCTP_RECVRCVINFO, SCTP_RCVINFO, SCTP_SNDINFO, SCTP_UNORDERED, SO_SNDBUFFORCE, Message, Phone,
                 Served, association, associations, both_styles, namespace, net, run, sctp_phone, udp_phone)

import balanced
import endpoint
import hostile
from harness import sipp

# linux/sctp.h
SCTP_RTOINFO, SCTP_ASSOCINFO, SCTP_INITMSG, SCTP_PEER_ADDR_PARAMS = 0, 1, 2, 9
SPP_HB_ENABLE = 1


class Style(Served):
    """The warning about buffers that associations share."""

    SOCKETS = 'one-to-many'

    def test_shared_buffers_are_warned_of_with_the_mend(self):
        self.assertRegex(self.server.text(), r'sctp_buffers_shared|the associations of a worker share one buffer')


class Kernel(unittest.TestCase):
    """What the tests below rely on."""

    def test_messages_keep_their_boundaries(self):
        listener, client = association('127.0.0.1'), association('127.0.0.1')
        listener.listen(1)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        server.settimeout(LIMIT)
        client.send(b'one')
        client.send(b'two')
        self.assertEqual([server.recv(100), server.recv(100)], [b'one', b'two'])
        for s in (listener, client, server):
            s.close()


@both_styles
class Messages(Served):
    """What RFC 4168 says of single messages."""

    def test_server_answers_over_stream_zero_without_order(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.flow.setsockopt(socket.IPPROTO_SCTP, SCTP_RECVRCVINFO, struct.pack('i', 1))
        _, branch = phone.request('OPTIONS', 'sip:example.com')
        raw, told, flags, _ = phone.flow.recvmsg(1 << 16, 256)
        message = Message(raw)
        self.assertEqual(message.status, 200)
        self.assertTrue(flags & socket.MSG_EOR)
        self.assertRegex(message.get('Via'), r'^SIP/2\.0/SCTP %s;branch=%s' % (re.escape(phone.place), branch))
        info = [data for level, kind, data in told if (level, kind) == (socket.IPPROTO_SCTP, SCTP_RCVINFO)]
        stream, _, flags, ppid = struct.unpack_from('=HHHxxI', info[0])
        self.assertEqual((stream, flags & SCTP_UNORDERED, ppid), (0, SCTP_UNORDERED, 0))

    def test_requests_are_taken_from_every_stream(self):
        phone = self.phone(sctp_phone, 'alice')
        streams, flow = iter(range(10)), phone.flow

        def on_streams(data):
            info = struct.pack('=HHIIi', next(streams), 0, 0, 0, 0)
            return flow.sendmsg([data], [(socket.IPPROTO_SCTP, SCTP_SNDINFO, info)])

        phone.flow = Proxy(flow, send=on_streams)
        for _ in range(10):
            phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual([phone.response().status for _ in range(10)], [200] * 10)

    def test_long_message_comes_whole_and_too_long_one_is_refused(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.flow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        # The kernel delivers the second one in parts.
        for size, status in ((50_000, 200), (200_000, 413), (100, 200)):
            phone.request('OPTIONS', 'sip:example.com', body=b'x' * size)
            self.assertEqual(phone.response().status, status)

    def test_message_without_end_ends_its_association_alone(self):
        phone, other = self.phone(sctp_phone, 'alice'), self.phone(sctp_phone, 'bob')
        phone.flow.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
        with contextlib.suppress(OSError):
            phone.request('OPTIONS', 'sip:example.com', body=b'x' * (2 << 20))
            while phone.flow.recv(1 << 16):
                pass
        phone.close()
        net.poll('the association ends', LIMIT, lambda: len(associations(5060)) == 1)
        other.request('OPTIONS', 'sip:example.com')
        self.assertEqual(other.response().status, 200)

    def test_length_may_be_absent_and_keepalives_are_answered(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.flow.send(b'\r\n\r\n')
        self.assertEqual(phone.flow.recv(100), b'\r\n')
        phone.flow.send(b'\r\n')
        phone.flow.send(('OPTIONS sip:example.com SIP/2.0\r\nVia: SIP/2.0/SCTP %s;branch=z9hG4bKx\r\nMax-Forwards: 70\r\n'
                         'From: <sip:a@example.com>;tag=a\r\nTo: <sip:example.com>\r\nCall-ID: bare\r\nCSeq: 1 OPTIONS\r\n'
                         '\r\n' % phone.place).encode())
        self.assertEqual(phone.response().get('Call-ID'), 'bare')

    def test_rubbish_ends_nothing_but_is_not_answered(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.flow.send(b'\0\1\2' * 100)
        phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual(phone.response().status, 200)


class Proxy:
    """A socket of which some methods are others."""

    def __init__(self, under, **others):
        self.under, self.others = under, others

    def __getattr__(self, name):
        return self.others.get(name) or getattr(self.under, name)


@both_styles
class Calls(Served):
    """Phones on SCTP and UDP."""

    def test_phone_on_sctp_is_called_over_its_association(self):
        bob, alice = self.phone(sctp_phone, 'bob'), self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        # Several, so that both workers own one.
        for _ in range(6):
            dialog, target, invite = self.call(alice, bob, 'sip:bob@example.com')
            self.assertRegex(invite.get('Via'), r'^SIP/2\.0/SCTP 127\.0\.0\.1:5060;')
            self.assertIn('transport=sctp', invite.get('Record-Route'))
            self.hang_up(alice, bob, dialog, target)
        self.assertEqual(len(associations(5060)), 1)

    def test_phone_on_sctp_calls_one_on_udp_and_back(self):
        bob, alice = self.phone(sctp_phone, 'bob'), self.phone(udp_phone, 'alice')
        for phone in (alice, bob):
            self.assertEqual(phone.register_self().status, 200)
        for _ in range(6):
            dialog, target, _ = self.call(bob, alice, 'sip:alice@example.com')
            self.hang_up(bob, alice, dialog, target)
        self.assertEqual(len(associations(5060)), 1)

    def test_two_phones_on_sctp_call_each_other(self):
        bob, alice = self.phone(sctp_phone, 'bob'), self.phone(sctp_phone, 'alice')
        for phone in (alice, bob):
            self.assertEqual(phone.register_self().status, 200)
        for caller, callee in ((alice, bob), (bob, alice)) * 3:
            dialog, target, _ = self.call(caller, callee, 'sip:%s@example.com' % callee.name)
            self.hang_up(caller, callee, dialog, target)

    def test_server_connects_to_a_contact_that_asks_for_sctp(self):
        listener = association('127.0.0.1')
        listener.listen(1)
        self.addCleanup(listener.close)
        alice = self.phone(udp_phone, 'alice')
        bob = self.phone(udp_phone, 'bob')
        bob.contact = '<sip:bob@127.0.0.1:%d;transport=sctp>' % listener.getsockname()[1]
        self.assertEqual(bob.register_self().status, 200)
        alice.request('INVITE', 'sip:bob@example.com')
        flow, peer = listener.accept()
        flow.settimeout(LIMIT)
        self.assertNotEqual(peer[1], 5060)
        callee = Phone('bob', flow, 'SCTP', bob.contact)
        self.addCleanup(callee.close)
        invite = callee.next()
        self.assertRegex(invite.get('Via'), r'^SIP/2\.0/SCTP 127\.0\.0\.1:5060;')
        callee.answer(invite, 486, 'Busy Here')
        self.assertEqual(alice.response().status, 486)

    def test_refused_association_leaves_the_way_of_the_registration(self):
        alice, bob = self.phone(udp_phone, 'alice'), self.phone(udp_phone, 'bob')
        bob.contact = '<sip:bob@127.0.0.1:9;transport=sctp>'
        self.assertEqual(bob.register_self().status, 200)
        alice.request('INVITE', 'sip:bob@example.com')
        invite = bob.next()
        self.assertRegex(invite.get('Via'), r'^SIP/2\.0/UDP 127\.0\.0\.1:5060;')
        bob.answer(invite, 486, 'Busy Here')
        self.assertEqual(alice.response().status, 486)
        self.assertEqual(self.server.metric('strowger_tcp_connects_refused_total'), 1)


@both_styles
class Ends(Served):
    """Associations that end."""

    def ends(self, how):
        bob, alice = self.phone(sctp_phone, 'bob'), self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        how(bob.flow)
        net.poll('the association is gone', LIMIT, lambda: not associations(5060))
        net.poll('the server knows', LIMIT, lambda: self.server.metric('strowger_connections') == 0)
        alice.request('INVITE', 'sip:bob@example.com')
        self.assertEqual(alice.response(300).status, 480)

    def test_abort_ends_the_flow(self):
        def abort(flow):
            flow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            flow.close()
        self.ends(abort)

    def test_shutdown_ends_the_flow(self):
        self.ends(lambda flow: flow.close())

    def test_abort_before_any_response_fails_the_call_at_once(self):
        bob, alice = self.phone(sctp_phone, 'bob'), self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        alice.request('INVITE', 'sip:bob@example.com')
        self.assertEqual(bob.next().method, 'INVITE')
        bob.flow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        bob.flow.close()
        self.assertGreaterEqual(alice.response(300).status, 400)

    def test_server_ends_with_associations_open(self):
        phones = [self.phone(sctp_phone, 'p%d' % n) for n in range(5)]
        for phone in phones:
            phone.request('OPTIONS', 'sip:example.com')
            self.assertEqual(phone.response().status, 200)
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(LIMIT), 0)
        for phone in phones:
            with contextlib.suppress(ConnectionError):
                self.assertEqual(phone.flow.recv(100), b'')

    def test_server_starts_again_while_associations_shut_down(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual(phone.response().status, 200)
        # The peer is silent, so the kernel repeats its SHUTDOWN.
        subprocess.run(['tc', 'qdisc', 'add', 'dev', 'lo', 'root', 'netem', 'loss', '100%'], check=True)
        self.server.process.terminate()
        self.assertEqual(self.server.process.wait(LIMIT), 0)
        subprocess.run(['tc', 'qdisc', 'del', 'dev', 'lo', 'root'], check=True)
        self.server.stop()
        self.server = self.started()


@both_styles
class Limits(Served):
    """What strangers may take."""

    MORE = '[limits]\nconnections_per_source = 5\n'

    def test_associations_of_one_source_are_limited(self):
        for n in range(20):
            # The server may end an association while the peer waits for the end of the handshake.
            with contextlib.suppress(ConnectionResetError):
                self.phone(sctp_phone, 'p%d' % n)
        net.poll('those beyond the limit are refused', LIMIT, lambda: self.server.metric('strowger_tcp_refused_total') == 15)
        self.assertEqual(len(associations(5060)), 5)
        other = self.phone(sctp_phone, 'other', '127.0.0.2')
        other.request('OPTIONS', 'sip:example.com')
        self.assertEqual(other.response().status, 200)

    def test_flood_of_inits_leaves_nothing_behind(self):
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_SCTP)
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
        self.addCleanup(raw.close)
        phone = self.phone(sctp_phone, 'alice', '127.0.0.2')
        for n in range(5_000):
            raw.sendto(endpoint.init('127.1.%d.%d' % (n // 250, 1 + n % 250), '127.0.0.1', 5060), ('127.0.0.1', 0))
        self.assertEqual(len(associations(5060)), 1)
        self.assertEqual(self.server.metric('strowger_connections'), 1)
        phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual(phone.response().status, 200)


@both_styles
class Paths(Served):
    """Two networks between the server and a phone, which has a network namespace of its own."""

    LISTEN = ['udp:127.0.0.1:5060', 'sctp:10.1.0.1,10.2.0.1:5060']
    SCTP = 'rto_initial = "200ms"\nrto_min = "100ms"\nheartbeat = "1s"\npath_retransmissions = 2\n'

    def setUp(self):
        run('ip netns add phone')
        self.addCleanup(run, 'ip netns del phone')
        for n in (1, 2):
            run('ip link add path%d type veth peer name far%d netns phone' % (n, n))
            self.addCleanup(run, 'ip link del path%d' % n)
            run('ip addr add 10.%d.0.1/24 dev path%d' % (n, n))
            run('ip link set path%d up' % n)
            run('ip -n phone addr add 10.%d.0.2/24 dev far%d' % (n, n))
            run('ip -n phone link set far%d up' % n)
        super().setUp()

    def lose_a_path(self, how):
        with namespace('phone'):
            bob = sctp_phone('bob', ('10.1.0.1', 5060), '10.1.0.2', '10.2.0.2')
        self.addCleanup(bob.close)
        alice = self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        up = [self.call(alice, bob, 'sip:bob@example.com')[:2] for _ in range(30)]
        ringing = []
        for _ in range(20):
            call, _ = alice.request('INVITE', 'sip:bob@example.com')
            invite = bob.next()
            bob.answer(invite, 180, 'Ringing')
            ringing.append((call, invite))
        run(how)
        for _, invite in ringing:
            bob.answer(invite, 200, 'OK')
        answered = [alice.response() for _ in ringing]
        self.assertEqual({(ok.status, ok.get('Call-ID')) for ok in answered}, {(200, call) for call, _ in ringing})
        for ok in answered:
            routes = ''.join('Route: %s\n' % r for r in reversed(ok.all('Record-Route')))
            target = re.search('<(.*?)>', ok.get('Contact')).group(1)
            dialog = ok.get('Call-ID'), ok.get('To'), routes
            alice.cseq = int(ok.get('CSeq').split(' ')[0]) - 1
            alice.request('ACK', target, dialog=dialog)
            self.assertEqual(bob.next().method, 'ACK')
            up.append((dialog, target))
        alice.cseq = 1000
        for dialog, target in up:
            self.invite_again(alice, bob, dialog, target)
        for dialog, target in up:
            self.hang_up(alice, bob, dialog, target)
        dialog, target, _ = self.call(alice, bob, 'sip:bob@example.com')
        net.poll('the server knows', LIMIT, lambda: self.server.metric('strowger_sctp_paths_lost_total') >= 1)
        self.hang_up(alice, bob, dialog, target)
        self.assertEqual(len(associations(5060)), 1)

    def test_no_call_is_lost_with_a_path(self):
        self.lose_a_path('ip link set path1 down')

    def test_no_call_is_lost_with_an_address(self):
        self.lose_a_path('ip addr del 10.1.0.1/24 dev path1')


@both_styles
class Options(Served):
    """What of the configuration the kernel has."""

    SCTP = ('rto_initial = "700ms"\nrto_min = "300ms"\nrto_max = "9s"\nheartbeat = "11s"\npath_retransmissions = 3\n'
            'retransmissions = 7\nstreams = 17\n')

    def test_timeouts_and_heartbeats_reach_the_kernel(self):
        phone = self.phone(sctp_phone, 'alice')
        phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual(phone.response().status, 200)
        sockets = self.server.sctp_sockets()
        # Two workers listen; the association has a socket of its own or none.
        self.assertEqual(len(sockets), 3 if self.SOCKETS == 'one-to-one' else 2)
        for fd in sockets:
            self.has_settings(lambda name, size: self.server.option(fd, socket.IPPROTO_SCTP, name, size))
        of_association = []
        for fd in sockets:
            with contextlib.suppress(OSError):
                number = int(associations(5060)[0][6])
                ask = lambda name, size: self.server.option(fd, socket.IPPROTO_SCTP, name, size, number)
                of_association.append(ask(SCTP_RTOINFO, 16))
                self.has_settings(ask)
        self.assertTrue(of_association)

    def has_settings(self, ask):
        _, initial, most, least = struct.unpack('=iIII', ask(SCTP_RTOINFO, 16))
        self.assertEqual((initial, least, most), (700, 300, 9000))
        self.assertEqual(struct.unpack_from('=iH', ask(SCTP_ASSOCINFO, 20))[1], 7)
        path = ask(SCTP_PEER_ADDR_PARAMS, 156)
        heartbeat, retransmissions = struct.unpack_from('=IH', path, 132)
        flags, = struct.unpack_from('=I', path, 146)
        self.assertEqual((heartbeat, retransmissions, flags & SPP_HB_ENABLE), (11_000, 3, SPP_HB_ENABLE))
        self.assertEqual(struct.unpack_from('=HH', ask(SCTP_INITMSG, 8)), (1, 17))


@both_styles
class Sipp(Served):
    """SIPp's calls over all pairs of transports, through two workers."""

    TRANSPORTS = ('u1', 't1', 's1')

    def test_calls_of_sipp_over_all_transports(self):
        callees = [sipp.Sipp('callee.xml', transport=transport) for transport in self.TRANSPORTS]
        for callee in callees:
            self.addCleanup(callee.stop)
        net.poll('SIPp listens', LIMIT, lambda: all(map(listens, ('udp', 'tcp', 'sctp/eps'), callees)))
        registrar = self.phone(udp_phone, 'registrar')
        for callee, transport in zip(callees, ('udp', 'tcp', 'sctp')):
            registrar.contact = '<sip:%s@%s:5060;transport=%s>' % (transport, callee.ip, transport)
            registrar.request('REGISTER', 'sip:example.com', 'Expires: 600\n',
                              dialog=('reg-' + transport, '<sip:%s@example.com>' % transport, ''))
            self.assertEqual(registrar.response().status, 200)
        callers = []
        for transport in self.TRANSPORTS:
            rows = list(zip(itertools.islice(itertools.cycle(('udp', 'tcp', 'sctp')), CALLS), itertools.repeat('caller')))
            callers.append(sipp.Sipp('caller.xml', self.PLACE, rate=20, calls=CALLS, rows=rows, transport=transport,
                                     keys=[('domain', 'example.com')]))
            self.addCleanup(callers[-1].stop)
        for caller in callers:
            self.assertIn(caller.wait(4 * LIMIT), (0, 1), caller.errors())
        # On a machine that stands still for seconds, a callee of SIPp ends calls that no user agent would.
        forgiven = set().union(*(callee.given_up() for callee in callees))
        for caller in callers:
            self.assertLessEqual(caller.given_up(), forgiven, caller.log())
            done = caller.totals()
            self.assertEqual(done['ok'] + done['failed'], CALLS)
            self.assertEqual(done['failed'], len(caller.given_up()), caller.log())
            self.assertGreater(done['ok'], 0)


@both_styles
class Generator(Served):
    """`strowger load` over SCTP."""

    def load(self, *options):
        done = subprocess.run([os.environ[rig.BINARY], 'load', '--quiet', '--lateness', '1000', '--workers', '2', *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=4 * LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_calls_share_a_connection_or_have_one_each(self):
        before = self.server.metric('strowger_tcp_accepted_total')
        for way, connections in (('s1', 1), ('sn', 30)):
            said = self.load('-sn', 'options', '-t', way, '-i', '127.0.0.2', 'sctp:127.0.0.1', '-r', '30', '-m', '30')
            self.assertRegex(said, r'Calls begun +30\b')
            accepted = self.server.metric('strowger_tcp_accepted_total')
            self.assertEqual(accepted - before, connections, way)
            before = accepted

    def test_one_generator_calls_another(self):
        answers = [os.environ[rig.BINARY], 'load', '--quiet', '-sn', 'uas', '-t', 's1', '-i', '127.0.0.3', '-p', '5070']
        callee = subprocess.Popen(answers, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (callee.kill(), callee.wait(), callee.stderr.close()))
        self.assertTrue(any(b'ready' in line for line in callee.stderr))
        for way in ('s1', 'sn'):
            self.load('-sn', 'uac', '-t', way, '-i', '127.0.0.2', '127.0.0.3:5070', '-r', '30', '-m', '30')


class Lab(unittest.TestCase):
    """`strowger lab` with associations."""

    EXPERIMENT = """
repetitions = 1
[system.one-to-one]
kind = "echo"
sockets = "one-to-one"
[system.one-to-many]
kind = "front-end"
sockets = "one-to-many"
[system.piggyback]
kind = "echo"
sockets = "one-to-many"
piggyback = true
[workload]
associations = 300
"""

    def test_associations_of_both_styles_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, 'sctp.toml')
            with open(file, 'w') as out:
                out.write(self.EXPERIMENT)
            done = subprocess.run([os.environ[rig.BINARY], 'lab', 'run', '--output', 'json', '--out', folder, file],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=6 * LIMIT)
            found = json.loads(done.stdout)
            with open(os.path.join(folder, 'report.html')) as page:
                page = page.read()
        self.assertEqual(found['verdict'], 'MEASURED', found)
        figures = {(f['subject'], f['quantity']): f['median'] for f in found['figures']}
        for system in ('one-to-one', 'one-to-many', 'piggyback'):
            self.assertEqual(figures[system, 'associations'], 300)
            self.assertGreater(figures[system, 'p50 of first-answer'], 0)
            self.assertGreater(figures[system, 'slab/association'], 1_000)
        self.assertGreater(figures['one-to-one', 'p50 of connect'], 0)
        # The request is a part of the set-up.
        self.assertNotIn(('piggyback', 'p50 of connect'), figures)
        self.assertIn('s:COOKIE-ECHO+s:DATA', page)


def listens(table, callee):
    """Whether a SIPp has its socket of this kind."""
    words = ['%08X:%04X' % (int.from_bytes(socket.inet_aton(callee.ip), sys.byteorder), callee.port), callee.ip]
    with open('/proc/net/' + table) as lines:
        return any(word in line.split() for line in lines for word in words)


CALLS = 90  # of each of three callers


def load_tests(loader, tests, _):
    for module in (hostile, balanced):
        tests.addTests(loader.loadTestsFromModule(module))
    return tests


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--bin', required=True, help='the strowger binary')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    os.environ[rig.BINARY] = os.path.abspath(options.bin)
    unittest.main(argv=sys.argv[:1] + options.names, verbosity=2)


if __name__ == '__main__':
    main()
