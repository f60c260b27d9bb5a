"""A balancer over SCTP on both sides: phones on associations, and a node that is reached and probed over an association."""
import re

from rig import LIMIT, Served, Server, associations, both_styles, net, sctp_phone, udp_phone


@both_styles
class Balanced(Served):
    """Phones at a balancer with one node, over SCTP."""

    NODE = ('127.0.0.2', 5060)

    def setUp(self):
        self.node = self.started_node()
        self.addCleanup(lambda: self.node.stop())
        balance = '[balance]\npath = "always"\nnodes = ["sip:%s:%d;transport=sctp"]\n' % self.NODE
        listen = ['udp:127.0.0.1:5060', 'sctp:127.0.0.1:5060']
        self.server = Server(listen, balance, command='balance', admin=8098, sctp=self.style())
        self.addCleanup(lambda: self.server.stop())
        self.wait_for(1)

    def started_node(self):
        places = ['%s:%s:%d' % (transport, *self.NODE) for transport in ('udp', 'sctp')]
        return Server(places, auth='fronts = ["127.0.0.1"]', sctp=self.style())

    def wait_for(self, up):
        net.poll('the node is %s' % ('up' if up else 'down'), LIMIT,
                 lambda: self.server.metric('strowger_balance_node_up') == up)

    def test_phones_on_sctp_and_udp_call_by_a_node_over_sctp(self):
        bob, alice, ann = self.phone(sctp_phone, 'bob'), self.phone(sctp_phone, 'alice'), self.phone(udp_phone, 'ann')
        for phone in (bob, alice, ann):
            self.assertEqual(phone.register_self().status, 200)
        # Several, so that both workers own one.
        for caller, callee in ((alice, bob), (bob, ann), (ann, alice)) * 3:
            dialog, target, invite = self.call(caller, callee, 'sip:%s@example.com' % callee.name)
            self.assertRegex(invite.get('Via'), r'^SIP/2\.0/%s 127\.0\.0\.1:5060;' % callee.transport)
            self.assertTrue(any(re.search('127.0.0.1:5060;transport=sctp;lr;d=', r) for r in invite.all('Record-Route')))
            self.hang_up(caller, callee, dialog, target)
        self.assertEqual(self.node.metric('strowger_udp_in_total'), 0)

    def test_node_whose_association_ends_is_down_until_it_is_back(self):
        alice = self.phone(sctp_phone, 'alice')
        self.node.process.kill()
        self.node.process.wait()
        self.node.folder.cleanup()
        self.wait_for(0)
        alice.request('INVITE', 'sip:bob@example.com')
        self.assertEqual(alice.response().status, 503)
        self.node = self.started_node()
        self.wait_for(1)
        alice.request('INVITE', 'sip:bob@example.com')
        self.assertEqual(alice.response().status, 404)
        self.assertGreaterEqual(len(associations(5060)), 2)
