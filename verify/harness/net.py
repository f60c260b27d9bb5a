"""Loopback addresses and a small raw SIP client with digest. Standard library only."""
import hashlib
import itertools
import os
import re
import socket
import threading
import time

_hosts = itertools.count(1)
_words = itertools.count(1)


def fresh_ip():
    """A loopback address of this run's own, from 127.145.0.0 on: three blocks of 250 by process id. The addresses
    below are those of verify/live."""
    turn, n = divmod(next(_hosts) - 1, 250)
    assert turn < 3, 'too many addresses in one run'
    block = os.getpid() % 9000 * 3 + turn
    return '127.%d.%d.%d' % (145 + block // 256, block % 256, n + 1)


def unique(prefix):
    """A word that no other call of this run uses."""
    return '%s%xx%x' % (prefix, os.getpid(), next(_words))


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def poll(what, seconds, ready):
    """Call `ready` until it gives something true, for at most `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = ready()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError('never happened: ' + what)
        time.sleep(0.05)


class Reply:
    """A response, read as far as tests need."""

    def __init__(self, raw):
        head, _, self.body = raw.partition(b'\r\n\r\n')
        lines = head.decode('utf-8', 'replace').split('\r\n')
        self.start = lines[0]
        self.status = int(lines[0].split(' ')[1]) if lines[0].startswith('SIP/2.0 ') else 0
        self.headers = [tuple(p.strip() for p in line.split(':', 1)) for line in lines[1:] if ':' in line]

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        return (self.all(name) or [''])[0]


class Client:
    """A UDP phone without media: asks, answers challenges, retransmits while it waits."""

    def __init__(self, server, user=None, password=None, domain='example.com'):
        self.server, self.user, self.password, self.domain = server, user, password, domain
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((fresh_ip(), 5060))
        self.ip, self.port = self.sock.getsockname()
        self.cseq = 0
        self.whom = '<sip:%s@%s>;tag=%s' % (user or 'tester', domain, unique('f'))

    def close(self):
        self.sock.close()

    def _text(self, method, uri, call_id, to, lines, branch):
        return '\r\n'.join([
            '%s %s SIP/2.0' % (method, uri),
            'Via: SIP/2.0/UDP %s:%d;branch=%s;rport' % (self.ip, self.port, branch),
            'Max-Forwards: 70', 'From: ' + self.whom, 'To: ' + to, 'Call-ID: ' + call_id,
            'CSeq: %d %s' % (self.cseq, method), *lines, 'Content-Length: 0', '', '']).encode()

    def _once(self, method, uri, call_id, to, lines):
        self.cseq += 1
        branch = unique('z9hG4bK')
        text = self._text(method, uri, call_id, to, lines, branch)
        for wait in (0.5, 1, 2, 4, 4):
            self.sock.sendto(text, self.server)
            end = time.monotonic() + wait
            while time.monotonic() < end:
                self.sock.settimeout(max(0.001, end - time.monotonic()))
                try:
                    reply = Reply(self.sock.recv(65536))
                except OSError:
                    break
                if reply.status >= 200 and reply.get('Call-ID') == call_id \
                        and reply.get('CSeq') == '%d %s' % (self.cseq, method):
                    if method == 'INVITE' and reply.status >= 300:
                        self.sock.sendto(self._text('ACK', uri, call_id, reply.get('To'), [], branch), self.server)
                    return reply
        return None

    def ask(self, method, uri, to=None, lines=()):
        """The final response, after one round of digest if challenged; None without any."""
        call_id = unique('call')
        to = '<%s>' % (to or uri)
        reply = self._once(method, uri, call_id, to, list(lines))
        if reply is None or reply.status not in (401, 407) or not self.password:
            return reply
        name, field = ('Authorization', 'WWW-Authenticate') if reply.status == 401 else \
            ('Proxy-Authorization', 'Proxy-Authenticate')
        line = '%s: %s' % (name, self.digest(reply.get(field), method, uri))
        return self._once(method, uri, call_id, to, list(lines) + [line])

    def in_dialog(self, method, answer):
        """ACK or another request inside the dialog that this 2xx made, by its Contact and route set."""
        target = re.search(r'<([^>]*)>', answer.get('Contact')).group(1)
        routes = [r.strip() for value in answer.all('Record-Route') for r in value.split(',')]
        lines = ['Route: ' + r for r in reversed(routes)]
        call_id, to = answer.get('Call-ID'), answer.get('To')
        if method == 'ACK':
            self.sock.sendto(self._text('ACK', target, call_id, to, lines, unique('z9hG4bK')), self.server)
            return None
        reply = self._once(method, target, call_id, to, lines)
        if reply is None or reply.status not in (401, 407):
            return reply
        name, field = ('Authorization', 'WWW-Authenticate') if reply.status == 401 else \
            ('Proxy-Authorization', 'Proxy-Authenticate')
        line = '%s: %s' % (name, self.digest(reply.get(field), method, target))
        return self._once(method, target, call_id, to, lines + [line])

    def digest(self, challenge, method, uri):
        """Credentials for an MD5 challenge (RFC 7616)."""
        p = dict((k.lower(), v.strip('"')) for k, v in re.findall(r'(\w+)=("[^"]*"|[^,\s]+)', challenge))
        ha1 = md5('%s:%s:%s' % (self.user, p['realm'], self.password))
        ha2 = md5('%s:%s' % (method, uri))
        out = 'Digest username="%s", realm="%s", nonce="%s", uri="%s", algorithm=MD5' % (
            self.user, p['realm'], p['nonce'], uri)
        if 'qop' in p:
            cnonce = unique('c')
            response = md5(':'.join((ha1, p['nonce'], '00000001', cnonce, 'auth', ha2)))
            out += ', qop=auth, nc=00000001, cnonce="%s"' % cnonce
        else:
            response = md5(':'.join((ha1, p['nonce'], ha2)))
        out += ', response="%s"' % response
        return out + (', opaque="%s"' % p['opaque'] if 'opaque' in p else '')

    def register(self, contact=None, expires=3600, user=None):
        """REGISTER; `contact` None fetches. Gives the response."""
        lines = ['Contact: <%s>' % contact, 'Expires: %d' % expires] if contact else []
        who = 'sip:%s@%s' % (user or self.user, self.domain)
        return self.ask('REGISTER', 'sip:' + self.domain, to=who, lines=lines)

    def alive(self):
        """Does the server answer OPTIONS in any way?"""
        return self.ask('OPTIONS', 'sip:' + self.domain) is not None


def register_block(server, users, host, port, domain, window=100, source=None):
    """Register many users without credentials, each at host:port, with `window` requests in flight, from another port of
    `host`, or from `source`: then as other devices.

    Bench and load tests need a thousand callees at once; one by one would take as long as the test. Without rport, with
    which this socket itself would be called.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind((source or host, 0))
    ip, own = sock.getsockname()
    sock.settimeout(1)
    run = unique('block')
    missing = dict(enumerate(users))
    for _ in range(10):
        waiting, pending = list(missing.items()), 0
        while waiting or pending:
            while waiting and pending < window:
                i, user = waiting.pop()
                sock.sendto((
                    'REGISTER sip:{d} SIP/2.0\r\nVia: SIP/2.0/UDP {ip}:{own};branch=z9hG4bK{r}i{i}\r\n'
                    'Max-Forwards: 70\r\nFrom: <sip:{u}@{d}>;tag={i}\r\nTo: <sip:{u}@{d}>\r\n'
                    'Call-ID: {r}i{i}\r\nCSeq: 1 REGISTER\r\nContact: <sip:{u}@{h}:{p}>\r\nExpires: 3600\r\n'
                    'Content-Length: 0\r\n\r\n').format(d=domain, ip=ip, own=own, r=run, i=i, u=user, h=host, p=port).encode(), server)
                pending += 1
            try:
                reply = Reply(sock.recv(65536))
            except OSError:
                break
            if reply.status < 200:
                continue
            pending -= 1
            i = int(reply.get('Call-ID').rsplit('i', 1)[1])
            if reply.status != 200:
                raise AssertionError('registration of %s: %s' % (missing.get(i), reply.start))
            missing.pop(i, None)
        if not missing:
            sock.close()
            return
    raise AssertionError('%d of %d callees could not be registered' % (len(missing), len(users)))


class Answerer:
    """A callee on UDP that takes every call and lets the caller end it: voicemail without a recorder.

    It offers one codec only, so that no phone wants to change the session afterwards.
    """

    def __init__(self, ip=None):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((ip or fresh_ip(), 5060))
        self.ip = self.sock.getsockname()[0]
        self.sock.settimeout(0.2)
        self.called, self.ended, self.running = {}, set(), True
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while self.running:
            try:
                raw, peer = self.sock.recvfrom(65536)
            except OSError:
                continue
            request = Reply(raw)
            method, call_id = request.start.split(' ')[0], request.get('Call-ID')
            if method == 'INVITE':
                self.called.setdefault(call_id, request.start.split(' ')[1])
                self.sock.sendto(self._reply(request, body=self._session()), peer)
            elif method == 'BYE':
                self.ended.add(call_id)
                self.sock.sendto(self._reply(request), peer)
            elif method not in ('ACK', 'SIP/2.0'):
                self.sock.sendto(self._reply(request), peer)

    def _session(self):
        return ('v=0\r\no=- 1 1 IN IP4 %s\r\ns=-\r\nc=IN IP4 %s\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n'
                % (self.ip, self.ip))

    def _reply(self, request, body=''):
        lines = ['SIP/2.0 200 OK']
        for name in ('Via', 'v', 'Record-Route', 'From', 'f', 'To', 't', 'Call-ID', 'i', 'CSeq'):
            for value in request.all(name):
                tag = ';tag=answerer' if name in ('To', 't') and ';tag=' not in value else ''
                lines.append('%s: %s%s' % (name, value, tag))
        lines.append('Contact: <sip:answerer@%s:5060>' % self.ip)
        if body:
            lines.append('Content-Type: application/sdp')
        return '\r\n'.join(lines + ['Content-Length: %d' % len(body), '', body]).encode()

    def close(self):
        self.running = False
        self.thread.join()
        self.sock.close()
