#!/usr/bin/env python3
"""SIP over SCTP with real associations. To be run inside user-mode Linux, where the kernel has SCTP:

    verify/uml/run.sh verify/uml/sctp.py --bin FILE [CLASS[.TEST]...]
"""
import argparse
import contextlib
import ctypes
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import net  # noqa: E402  (after the path is set)

LIMIT = 20.0  # seconds that anything may take
SOON = 1.0  # seconds in which nothing more comes
BINARY = ''

# linux/sctp.h
SCTP_INITMSG, SCTP_RECVRCVINFO, SCTP_SOCKOPT_BINDX_ADD = 2, 32, 100
SCTP_SNDINFO, SCTP_RCVINFO = 2, 3
SCTP_UNORDERED = 1
SO_SNDBUFFORCE = 32  # asm-generic/socket.h


def association(*addresses, port=0):
    """A one-to-one socket, bound to these addresses."""
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    s.settimeout(LIMIT)
    s.bind((addresses[0], port))
    port = s.getsockname()[1]
    for more in addresses[1:]:
        packed = struct.pack('=H', socket.AF_INET) + struct.pack('!H', port) + socket.inet_aton(more) + bytes(8)
        s.setsockopt(socket.IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD, packed)
    return s


def associations(port):
    """The kernel's associations with this local port: the addresses of both ends of each."""
    with open('/proc/net/sctp/assocs') as lines:
        rows = [line.split() for line in list(lines)[1:]]
    return [row for row in rows if row and row[11] == str(port)]


class Message(net.Reply):
    """A message of either kind."""

    def __init__(self, raw):
        super().__init__(raw)
        words = self.start.split(' ')
        self.method = '' if self.status else words[0]
        self.uri = '' if self.status else words[1]


class Phone:
    """A phone with one flow to the server: an association, or a datagram socket."""

    serial = 0

    def __init__(self, name, flow, transport, contact=None):
        self.name, self.flow, self.transport = name, flow, transport
        host, port = flow.getsockname()
        self.place = '%s:%d' % (host, port)
        self.contact = contact or '<sip:%s@%s;transport=%s>' % (name, self.place, transport.lower())
        self.cseq = 0

    def close(self):
        self.flow.close()

    def send(self, text, body=b''):
        self.flow.send(text.replace('\n', '\r\n').encode() + b'Content-Length: %d\r\n\r\n' % len(body) + body)

    def next(self):
        return Message(self.flow.recv(1 << 18))

    def response(self, at_least=200):
        """The next final response, requests that come meanwhile left out."""
        while True:
            message = self.next()
            if message.status >= at_least:
                return message

    def has_nothing(self):
        return not select.select([self.flow], [], [], SOON)[0]

    def request(self, method, uri, more='', body=b'', dialog=None):
        """Sends a request, and gives what identifies it."""
        Phone.serial += 1
        self.cseq += 1
        call, to, routes = dialog or ('call%d' % Phone.serial, '<%s>' % uri, '')
        branch = 'z9hG4bK%d' % Phone.serial
        self.send('%s %s SIP/2.0\nVia: SIP/2.0/%s %s;branch=%s\nMax-Forwards: 70\nFrom: <sip:%s@example.com>;tag=%s\n'
                  'To: %s\nCall-ID: %s\nCSeq: %d %s\n%sContact: %s\n%s' % (
                      method, uri, self.transport, self.place, branch, self.name, self.name, to, call, self.cseq,
                      method, routes, self.contact, more), body)
        return call, branch

    def register(self, expires=600):
        self.request('REGISTER', 'sip:example.com', 'Expires: %d\n' % expires)
        return self.response()

    def register_self(self):
        """Its own REGISTER, whose To is its address of record."""
        self.request('REGISTER', 'sip:example.com', 'Expires: 600\n',
                     dialog=('reg-' + self.name, '<sip:%s@example.com>' % self.name, ''))
        return self.response()

    def answer(self, request, status, reason, tag=True):
        to = request.get('To') + (';tag=%s' % self.name if tag and 'tag=' not in request.get('To') else '')
        vias = ''.join('Via: %s\n' % v for v in request.all('Via'))
        records = ''.join('Record-Route: %s\n' % r for r in request.all('Record-Route'))
        self.send('SIP/2.0 %d %s\n%s%sFrom: %s\nTo: %s\nCall-ID: %s\nCSeq: %s\nContact: %s\n' % (
            status, reason, vias, records, request.get('From'), to, request.get('Call-ID'), request.get('CSeq'),
            self.contact))


def sctp_phone(name, server, *addresses):
    flow = association(*(addresses or ('127.0.0.1',)))
    flow.connect(server)
    return Phone(name, flow, 'SCTP')


def udp_phone(name, server, address='127.0.0.1'):
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.settimeout(LIMIT)
    flow.bind((address, 0))
    flow.connect(server)
    return Phone(name, flow, 'UDP')


class Server:
    """The server under test."""

    def __init__(self, listen, more='', command='serve', options=()):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, 'strowger.toml')
        with open(path, 'w') as file:
            file.write('domains = ["example.com"]\nlisten = [%s]\nworkers = 2\ndata_dir = "%s/data"\n'
                       '[auth]\nenabled = false\n[admin]\nlisten = "127.0.0.1:8099"\n%s' % (
                           ', '.join('"%s"' % l for l in listen), self.folder.name, more))
        self.log = os.path.join(self.folder.name, 'log')
        with open(self.log, 'w') as log:
            self.process = subprocess.Popen([BINARY, command, '--config', path, *options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        net.poll('the server is ready', LIMIT, self.is_ready)

    def text(self):
        with open(self.log) as log:
            return log.read()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError('the server ended:\n' + self.text())
        return ' ready: ' in self.text()

    def metric(self, name):
        with socket.create_connection(('127.0.0.1', 8099), LIMIT) as s:
            s.sendall(b'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:8099\r\n\r\n')
            text = b''.join(iter(lambda: s.recv(65536), b'')).decode()
        assert '\n%s' % name in text, text
        return sum(float(v) for v in re.findall(r'^%s(?:\{.*\})? (\S+)$' % re.escape(name), text, re.M))

    def stop(self):
        self.process.terminate()
        try:
            # It may wait for calls that do not end.
            self.process.wait(2 * SOON)
        except subprocess.TimeoutExpired:
            self.process.terminate()
        try:
            code = self.process.wait(LIMIT)
        finally:
            self.process.kill()
        text = self.text()
        self.folder.cleanup()
        assert code == 0 and 'bug_found' not in text and 'panicked' not in text, text


class Served(unittest.TestCase):
    """Tests with a server at these listeners."""

    LISTEN = ['udp:127.0.0.1:5060', 'sctp:127.0.0.1:5060']
    MORE = ''
    PLACE = ('127.0.0.1', 5060)

    def setUp(self):
        self.server = Server(self.LISTEN, self.MORE)
        self.addCleanup(lambda: self.server.stop())

    def phone(self, make, name, *addresses):
        phone = make(name, self.PLACE, *addresses)
        self.addCleanup(phone.close)
        return phone

    def call(self, caller, callee, to):
        """A call that is answered. Gives the dialog of the caller, and the INVITE as the callee got it."""
        call, _ = caller.request('INVITE', to)
        invite = callee.next()
        self.assertEqual(invite.method, 'INVITE')
        callee.answer(invite, 180, 'Ringing')
        callee.answer(invite, 200, 'OK')
        ok = caller.response()
        self.assertEqual((ok.status, ok.get('Call-ID')), (200, call))
        routes = ''.join('Route: %s\n' % r for r in reversed(ok.all('Record-Route')))
        target = re.search('<(.*?)>', ok.get('Contact')).group(1)
        caller.cseq -= 1
        caller.request('ACK', target, dialog=(call, ok.get('To'), routes))
        self.assertEqual(callee.next().method, 'ACK')
        return (call, ok.get('To'), routes), target, invite

    def hang_up(self, caller, callee, dialog, target):
        caller.request('BYE', target, dialog=dialog)
        bye = callee.next()
        self.assertEqual(bye.method, 'BYE')
        callee.answer(bye, 200, 'OK')
        self.assertEqual(caller.response().status, 200)


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
        self.server = Server(self.LISTEN)


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
            raw.sendto(init('127.1.%d.%d' % (n // 250, 1 + n % 250), '127.0.0.1', 5060), ('127.0.0.1', 0))
        self.assertEqual(len(associations(5060)), 1)
        self.assertEqual(self.server.metric('strowger_connections'), 1)
        phone.request('OPTIONS', 'sip:example.com')
        self.assertEqual(phone.response().status, 200)


class Paths(Served):
    """Two networks between the server and a phone, which has a network namespace of its own."""

    LISTEN = ['udp:127.0.0.1:5060', 'sctp:10.1.0.1,10.2.0.1:5060']
    MORE = '[sctp]\nrto_initial = "200ms"\nrto_min = "100ms"\nheartbeat = "1s"\npath_retransmissions = 2\n'

    def setUp(self):
        run('ip netns add phone')
        self.addCleanup(run, 'ip netns del phone')
        for n in (1, 2):
            run('ip link add path%d type veth peer name far%d netns phone' % (n, n))
            run('ip addr add 10.%d.0.1/24 dev path%d' % (n, n))
            run('ip link set path%d up' % n)
            run('ip -n phone addr add 10.%d.0.2/24 dev far%d' % (n, n))
            run('ip -n phone link set far%d up' % n)
        super().setUp()

    def test_no_call_is_lost_with_a_path(self):
        with namespace('phone'):
            bob = sctp_phone('bob', ('10.1.0.1', 5060), '10.1.0.2', '10.2.0.2')
        self.addCleanup(bob.close)
        alice = self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        up = [self.call(alice, bob, 'sip:bob@example.com')[:2] for _ in range(5)]
        run('ip link set path1 down')
        for dialog, target in up:
            self.hang_up(alice, bob, dialog, target)
        dialog, target, _ = self.call(alice, bob, 'sip:bob@example.com')
        net.poll('the server knows', LIMIT, lambda: self.server.metric('strowger_sctp_paths_lost_total') >= 1)
        self.hang_up(alice, bob, dialog, target)
        self.assertEqual(len(associations(5060)), 1)


def run(command):
    subprocess.run(command.split(), check=True)


@contextlib.contextmanager
def namespace(name):
    """Sockets that are made meanwhile are in this network namespace (setns(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/self/ns/net') as own, open('/run/netns/' + name) as other:
        assert libc.setns(other.fileno(), 0) == 0, ctypes.get_errno()
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), 0) == 0, ctypes.get_errno()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def entry(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value


TABLE = [entry(n) for n in range(256)]


def init(source, target, port):
    """An IP packet with an INIT chunk (RFC 9260 section 3.3.2) from any address."""
    chunk = struct.pack('!BBHIIHHI', 1, 0, 20, 0x12345678, 65_536, 10, 10, 1)
    common = struct.pack('!HHI', 40_000, port, 0)
    crc = crc32c(common + bytes(4) + chunk)
    sctp = common + struct.pack('<I', crc) + chunk
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(sctp), 1, 0, 64, socket.IPPROTO_SCTP, 0,
                         socket.inet_aton(source), socket.inet_aton(target))
    return header + sctp


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--bin', required=True, help='the strowger binary')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    BINARY = os.path.abspath(options.bin)
    unittest.main(argv=sys.argv[:1] + options.names, verbosity=2)


if __name__ == '__main__':
    main()
