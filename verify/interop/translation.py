"""Phones behind address translation that believe in an address where nobody listens."""
import re
import selectors
import socket
import threading

import phones
from harness import net, servers
from scenarios import dismiss, must, scenario, set_up, talk


class Translator:
    """A symmetric address translation for one phone: what it sends to `inside` leaves for the server from another
    address and port, and only what the server sends there comes back. `server` is set before it sends. `rport=False` takes rport out of the phone's
    Via, as of a phone that knows nothing of RFC 3581. Use as a context manager."""

    def __init__(self, rport=True):
        self.server, self.rport = None, rport
        self.inner, self.outer = [self._socket(net.fresh_ip(), port) for port in (5060, 0)]
        self.inside = self.inner.getsockname()
        self.phone, self.longest = None, 0
        self.ends, self.ended = socket.socketpair()

    @staticmethod
    def _socket(ip, port):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((ip, port))
        return sock

    def __enter__(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.close()
        self.thread.join(5)
        for sock in (self.inner, self.outer, self.ended):
            sock.close()

    def _run(self):
        ready = selectors.DefaultSelector()
        for sock in (self.inner, self.outer, self.ended):
            ready.register(sock, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is self.ended:
                    return
                data, source = key.fileobj.recvfrom(65536)
                if key.fileobj is self.inner:
                    self.phone = source
                    self.outer.sendto(data if self.rport else self._without_rport(data), self.server)
                elif source == self.server and self.phone:
                    self.longest = max(self.longest, len(data))
                    self.inner.sendto(data, self.phone)

    @staticmethod
    def _without_rport(data):
        return data if data.startswith(b'SIP/2.0 ') else re.sub(rb';rport(?=[;\r])', b'', data, count=1)


def give_up(caller, callee):
    """A call that the caller ends while it rings."""
    for phone in (caller, callee):
        phone.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    caller.wait('ringing')
    caller.hangup()
    callee.wait('closed')
    must(caller.wait('closed')['code'] == 487, '%s did not get 487' % caller)


def hold(one, other):
    """Of a call under way."""
    one.hold()
    other.wait('held')
    one.resume()
    other.wait('speaking')


def message(sender, receiver):
    receiver.forget()
    sender.forget()
    sender.message(receiver.uri, 'to ' + receiver.user)
    must(receiver.wait('message')['text'] == 'to ' + receiver.user, 'another message')
    must(sender.wait('delivered')['code'] == 200, 'not delivered')


@scenario
def phones_translated(run):
    """PJSIP behind symmetric translation with wrong Via and Contact: calls, is called, cancels, holds, sends messages."""
    users = [(name, 'secret') for name in ('inside', 'open')]
    done = []
    for rport in (True, False):
        translator = Translator(rport)
        # The phone's Route names the address that it sends to.
        config = 'aliases = ["%s"]\n' % translator.inside[0]
        with translator, servers.Strowger(run.bin, workers=2, users=users, config=config) as server:
            translator.server = server.address
            # 2,000 bytes and more with what stands before the body.
            crew = [phones.Pjsip('inside', 'secret', server, 'udp', behind=translator, padding=1500),
                    phones.Pjsip('open', 'secret', server, 'udp', padding=1500)]
            try:
                for phone in crew:
                    phone.start().wait('registered', 20)
                for one, other in (crew, crew[::-1]):
                    talk(one, other)
                    set_up(one, other)
                    hold(one, other)
                    hold(other, one)
                    other.hangup()
                    one.wait('closed')
                    give_up(one, other)
                    message(one, other)
                must(translator.longest >= 2000, 'the longest request had %d bytes' % translator.longest)
                done.append(translator.longest)
            finally:
                dismiss(crew)
    return 'with rport and without, requests of up to %d bytes' % max(done)
