"""Hostile SCTP peers: the tests send raw packets that no kernel would send."""
import struct

from rig import LIMIT, Phone, Served, association, associations, both_styles, net, run, sctp_phone, udp_phone

from endpoint import (ABORT, COOKIE_ECHO, DATA, ERROR, FORWARD_TSN, FORWARD_TSN_SUPPORTED, SHUTDOWN,
                      SHUTDOWN_ACK, Endpoint, chunk)


@both_styles
class Hostile(Served):
    """Tests with peers that write raw packets, on an interface without an address."""

    LISTEN = ['udp:127.0.0.1:5060', 'sctp:127.0.0.1,10.3.0.1:5060']
    MORE = '[limits]\nmessage_bytes = 200000\n'
    SCTP = 'rto_initial = "200ms"\nrto_min = "100ms"\nrto_max = "1s"\nretransmissions = 5\n'

    def setUp(self):
        run('ip link add inner type veth peer name outer')
        self.addCleanup(run, 'ip link del inner')
        run('ip addr add 10.3.0.1/24 dev inner')
        run('ip link set inner up')
        run('ip link set outer up')
        with open('/sys/class/net/outer/address') as file:
            run('ip neigh replace 10.3.0.2 lladdr %s dev inner' % file.read().strip())
        if self.SOCKETS == 'one-to-many':
            # It loads the module, which has these.
            association('127.0.0.1').close()
            for policy in ('rcvbuf_policy', 'sndbuf_policy'):
                run('sysctl -q -w net.sctp.%s=1' % policy)
                self.addCleanup(run, 'sysctl -q -w net.sctp.%s=0' % policy)
        super().setUp()
        self.assertNotIn('sctp_buffers_shared', self.server.text())
        self.other = self.phone(sctp_phone, 'other')
        self.works()

    def peer(self, port=40_000):
        peer = Endpoint('outer', 'inner', '10.3.0.2', ('10.3.0.1', 5060), port, 2 * LIMIT)
        self.addCleanup(peer.close)
        return peer

    def works(self):
        """Checks that the server answers an unrelated phone."""
        self.other.request('OPTIONS', 'sip:example.com')
        self.assertEqual(self.other.response().status, 200)

    def is_alone(self):
        """Checks that the peers have left no associations."""
        net.poll('associations end', LIMIT, lambda: len(associations(5060)) == 1)
        net.poll('the server knows', LIMIT, lambda: self.server.metric('strowger_connections') == 1)
        self.works()

    def options(self, peer, **more):
        phone = Phone('raw', peer, 'SCTP')
        phone.request('OPTIONS', 'sip:example.com', **more)
        return phone

    def test_abort_is_taken_in_every_state(self):
        abort = chunk(ABORT)
        # Before anything, with the tag of nothing, then of an INIT ACK.
        self.peer().send_chunks(abort, tag=77)
        peer = self.peer(40_001)
        peer.ask()
        peer.send_chunks(abort)
        # Once established, with the cookie in one packet or after it.
        peer = self.peer(40_002)
        peer.send_chunks(chunk(COOKIE_ECHO, 0, peer.ask()), abort)
        peer = self.peer(40_003)
        peer.connect()
        peer.send_chunks(abort)
        # In a message, and while a response is under way.
        peer = self.peer(40_004)
        peer.connect()
        peer.send(b'OPTIONS sip:example.com SIP/2.0\r\n', end=False)
        peer.send_chunks(abort)
        peer = self.peer(40_005)
        peer.connect()
        peer.acknowledges = False
        self.options(peer)
        peer.expect(DATA)
        peer.send_chunks(abort)
        # While it shuts down.
        peer = self.peer(40_006)
        peer.connect()
        peer.send_chunks(chunk(SHUTDOWN, 0, struct.pack('!I', peer.heard)))
        peer.expect(SHUTDOWN_ACK)
        peer.send_chunks(abort)
        self.is_alone()

    def test_shutdown_that_never_completes_ends(self):
        peer = self.peer()
        peer.connect()
        peer.send_chunks(chunk(SHUTDOWN, 0, struct.pack('!I', peer.heard)))
        peer.expect(SHUTDOWN_ACK)
        self.is_alone()

    def test_cookie_that_never_comes_holds_nothing(self):
        for port in range(40_000, 40_050):
            self.peer(port).ask()
        self.assertEqual(len(associations(5060)), 1)
        self.assertEqual(self.server.metric('strowger_connections'), 1)
        self.works()

    def test_peer_that_goes_away_is_given_up(self):
        peer = self.peer()
        peer.connect()
        peer.acknowledges = False
        self.options(peer)
        peer.expect(DATA)
        # It never acknowledges the response.
        self.is_alone()

    def test_unfinished_message_delays_no_other(self):
        peer = self.peer()
        peer.connect()
        # More than the kernel keeps before it delivers a part.
        peer.send(b'OPTIONS sip:example.com SIP/2.0\r\nSubject: ' + b'x' * 70_000, end=False)
        # Several, so that both workers own one.
        phones = [self.phone(sctp_phone, 'p%d' % n) for n in range(8)]
        for phone in phones:
            phone.request('OPTIONS', 'sip:example.com')
            self.assertEqual(phone.response().status, 200)
        self.assertEqual(self.server.metric('strowger_connections'), 10)
        # It does not end in time.
        peer.expect(ABORT)

    def test_stream_beyond_those_agreed_is_refused_by_the_kernel(self):
        peer = self.peer()
        peer.connect()
        peer.send(b'OPTIONS sip:example.com SIP/2.0\r\n\r\n', stream=9999)
        _, _, value = peer.expect(ERROR)
        self.assertEqual(struct.unpack_from('!HHH', value), (1, 8, 9999), 'Invalid Stream Identifier')
        phone = self.options(peer)
        self.assertEqual(phone.response().status, 200)
        peer.send_chunks(chunk(ABORT))

    def test_message_that_is_given_up_is_forgotten(self):
        peer = self.peer()
        peer.connect(struct.pack('!HH', FORWARD_TSN_SUPPORTED, 4))
        peer.send(b'OPTIONS sip:example.com SIP/2.0\r\nSubject: ' + b'x' * 62_000, end=False)
        peer.tsn += 1
        peer.send_chunks(chunk(FORWARD_TSN, 0, struct.pack('!I', peer.tsn - 1)))
        phone = self.options(peer)
        self.assertEqual(phone.response().status, 200)
        peer.send_chunks(chunk(ABORT))

    def test_peer_that_restarts_is_a_new_connection(self):
        peer = self.peer()
        peer.connect()
        bob, alice = Phone('bob', peer, 'SCTP'), self.phone(udp_phone, 'alice')
        self.assertEqual(bob.register_self().status, 200)
        peer.send(b'OPTIONS sip:example.com SIP/2.0\r\n', end=False)
        peer.connect()
        net.poll('the server knows', LIMIT, lambda: self.server.metric('strowger_sctp_restarts_total') == 1)
        self.assertEqual(self.server.metric('strowger_connections'), 2)
        self.assertEqual(len(associations(5060)), 2)
        # What was registered was for the peer before.
        alice.request('INVITE', 'sip:bob@example.com')
        self.assertEqual(alice.response(300).status, 480)
        self.assertEqual(bob.register_self().status, 200)
        dialog, target, _ = self.call(alice, bob, 'sip:bob@example.com')
        self.hang_up(alice, bob, dialog, target)
        peer.send_chunks(chunk(ABORT))
        self.is_alone()

    def test_peer_that_takes_nothing_delays_no_other(self):
        peer = self.peer()
        peer.connect()
        peer.acknowledges = False
        # Responses repeat the name.
        phone = Phone('r' * 900, peer, 'SCTP')
        for _ in range(300):
            phone.request('OPTIONS', 'sip:example.com')
        for _ in range(20):
            self.works()
        if self.SOCKETS == 'one-to-many':
            self.assertEqual(self.server.metric('strowger_sctp_peeled_off_total'), 1)
        peer.send_chunks(chunk(ABORT))
        self.is_alone()
