"""Shared by the SCTP tests in user-mode Linux: the server under test, phones, networks."""
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
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import net  # noqa: E402  (after the path is set)

BINARY = 'STROWGER_SCTP_BINARY'  # environment variable that names the binary
LIMIT = 20.0  # seconds that anything may take
SOON = 1.0  # seconds in which nothing more comes

# linux/sctp.h
SCTP_INITMSG, SCTP_RECVRCVINFO, SCTP_SOCKOPT_BINDX_ADD = 2, 32, 100
SCTP_SNDINFO, SCTP_RCVINFO = 2, 3
SCTP_UNORDERED = 1
SO_SNDBUFFORCE, SO_PROTOCOL = 32, 38  # asm-generic/socket.h
SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438


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
        """The next final response. Requests before it are skipped."""
        while True:
            message = self.next()
            if message.status >= at_least:
                return message

    def has_nothing(self):
        return not select.select([self.flow], [], [], SOON)[0]

    def request(self, method, uri, more='', body=b'', dialog=None):
        """Sends a request. Returns its identification."""
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

    def __init__(self, listen, more='', command='serve', options=(), sctp='', auth='', admin=8099):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, 'strowger.toml')
        with open(path, 'w') as file:
            file.write('domains = ["example.com"]\nlisten = [%s]\nworkers = 2\ndata_dir = "%s/data"\n'
                       '[auth]\nenabled = false\n%s\n[admin]\nlisten = "127.0.0.1:%d"\n[sctp]\n%s\n%s' % (
                           ', '.join('"%s"' % l for l in listen), self.folder.name, auth, admin, sctp, more))
        self.admin = ('127.0.0.1', admin)
        self.log = os.path.join(self.folder.name, 'log')
        with open(self.log, 'w') as log:
            self.process = subprocess.Popen([os.environ[BINARY], command, '--config', path, *options], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        net.poll('the server is ready', LIMIT, self.is_ready)

    def text(self):
        with open(self.log) as log:
            return log.read()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError('the server ended:\n' + self.text())
        return ' ready: ' in self.text()

    def option(self, fd, level, name, size, association=0):
        """An option of its socket with this descriptor, as the kernel says it: pidfd_getfd(2) lends the socket. One of
        SCTP is that of an association, or of those to come."""
        libc = ctypes.CDLL(None, use_errno=True)
        process = libc.syscall(SYS_PIDFD_OPEN, self.process.pid, 0)
        lent = libc.syscall(SYS_PIDFD_GETFD, process, fd, 0)
        value, room = ctypes.create_string_buffer(struct.pack('i', association), size), ctypes.c_uint(size)
        found = libc.getsockopt(lent, level, name, value, ctypes.byref(room)) if lent >= 0 else -1
        error = ctypes.get_errno()
        os.close(process)
        if lent >= 0:
            os.close(lent)
        if found < 0:
            raise OSError(error, 'option %d of descriptor %d' % (name, fd))
        return value.raw

    def sctp_sockets(self):
        """The descriptors of its SCTP sockets."""
        found = []
        for fd in map(int, os.listdir('/proc/%d/fd' % self.process.pid)):
            with contextlib.suppress(OSError):
                protocol = self.option(fd, socket.SOL_SOCKET, SO_PROTOCOL, 4)
                found += [fd] if int.from_bytes(protocol, sys.byteorder) == socket.IPPROTO_SCTP else []
        return found

    def metric(self, name):
        with socket.create_connection(self.admin, LIMIT) as s:
            s.sendall(b'GET /metrics HTTP/1.0\r\nHost: %s:%d\r\n\r\n' % (self.admin[0].encode(), self.admin[1]))
            text = b''.join(iter(lambda: s.recv(65536), b'')).decode()
        assert '\n%s' % name in text, text
        return sum(float(v) for v in re.findall(r'^%s(?:\{.*\})? (\S+)$' % re.escape(name), text, re.M))

    def stop(self):
        self.process.terminate()
        try:
            # It may wait for calls that never end.
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


def both_styles(case):
    """The tests of a class with sockets of either style."""
    module = sys.modules[case.__module__]
    name = case.__name__ + 'OneToMany'
    setattr(module, name, type(name, (case,), {'SOCKETS': 'one-to-many', '__module__': case.__module__}))
    return case


class Served(unittest.TestCase):
    """Tests with a server at these listeners."""

    LISTEN = ['udp:127.0.0.1:5060', 'tcp:127.0.0.1:5060', 'sctp:127.0.0.1:5060']
    MORE = ''
    SOCKETS = 'one-to-one'
    SCTP = ''
    PLACE = ('127.0.0.1', 5060)

    def setUp(self):
        self.server = self.started()
        self.addCleanup(lambda: self.server.stop())

    def started(self):
        return Server(self.LISTEN, self.MORE, sctp=self.style())

    def style(self):
        return 'sockets = "%s"\n%s' % (self.SOCKETS, self.SCTP)

    def phone(self, make, name, *addresses):
        phone = make(name, self.PLACE, *addresses)
        self.addCleanup(phone.close)
        return phone

    def call(self, caller, callee, to):
        """A call that is answered. Returns the dialog of the caller, and the INVITE as the callee received it."""
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

    def invite_again(self, caller, callee, dialog, target):
        """A re-INVITE that is answered."""
        caller.request('INVITE', target, dialog=dialog)
        invite = callee.next()
        self.assertEqual(invite.method, 'INVITE')
        callee.answer(invite, 200, 'OK')
        self.assertEqual(caller.response().status, 200)
        caller.cseq -= 1
        caller.request('ACK', target, dialog=dialog)
        self.assertEqual(callee.next().method, 'ACK')

    def hang_up(self, caller, callee, dialog, target):
        caller.request('BYE', target, dialog=dialog)
        bye = callee.next()
        self.assertEqual(bye.method, 'BYE')
        callee.answer(bye, 200, 'OK')
        self.assertEqual(caller.response().status, 200)


def run(command):
    subprocess.run(command.split(), check=True)


@contextlib.contextmanager
def namespace(name):
    """Sockets made within this context are in this network namespace (setns(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/self/ns/net') as own, open('/run/netns/' + name) as other:
        assert libc.setns(other.fileno(), 0) == 0, ctypes.get_errno()
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), 0) == 0, ctypes.get_errno()
