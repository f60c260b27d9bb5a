"""Three kinds of real phones behind one face: baresip, PJSIP and linphone, each a process on its own address."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from harness import net
from harness.servers import Process

HERE = os.path.dirname(os.path.abspath(__file__))


class Phone:
    """Events arrive on a list; `wait` takes the first that fits and everything before it."""

    kind = 'phone'

    def __init__(self, user, password, server, transport, listening=False, behind=None, padding=0, webrtc=False):
        """`listening`: it is called where it listens, not on the connection that it has made: PJSIP has to be told.
        PJSIP alone can be `behind` a Translator, with a wrong idea of its own address, and have `padding` in its SDP.
        baresip alone has media as browsers want them (`webrtc`): DTLS-SRTP, ICE, RTP and RTCP on one port."""
        self.listening, self.behind, self.padding, self.webrtc = listening, behind, padding, webrtc
        self.user, self.password, self.server, self.transport = user, password, server, transport
        self.uri = 'sip:%s@%s' % (user, server.domain)
        self.events, self.changed = [], threading.Condition()

    @property
    def place(self):
        """Where the server is for this phone."""
        return self.server.place(self.transport) if self.transport == 'tls' else self.server.address

    def __str__(self):
        return '%s/%s(%s)' % (self.kind, self.transport, self.user)

    def put(self, event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def wait(self, name, seconds=15, **fields):
        """The next event of this name with these fields."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                for i, e in enumerate(self.events):
                    if e['event'] == name and all(e.get(k) == v for k, v in fields.items()):
                        del self.events[:i + 1]
                        return e
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError('%s: no %s%s; it saw %s' % (self, name, fields or '', self.events[-5:]))
                self.changed.wait(left)

    def forget(self):
        with self.changed:
            self.events.clear()

    def quit(self, seconds):
        """Tells its process to end, and ends it if it does not within this time."""
        try:
            self._do('quit')
            self.proc.wait(seconds)
        except (OSError, subprocess.TimeoutExpired):
            self.proc.kill()
            self.proc.wait()


class Pjsip(Phone):
    """pjsua2 in a process of its own (it allows one endpoint a process)."""

    kind = 'pjsip'

    def start(self):
        options = dict(user=self.user, password=self.password, domain=self.server.domain, transport=self.transport,
                       proxy='%s:%d' % self.place, ip=net.fresh_ip(), listening=self.listening,
                       padding=self.padding,
                       roots=self.server.authority.roots if self.transport == 'tls' else None)
        if self.behind:
            options.update(proxy='%s:%d' % self.behind.inside, claims=net.fresh_ip())
        self.proc = subprocess.Popen(
            [sys.executable, os.path.join(HERE, 'pjsip_phone.py'), json.dumps(options)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def _read(self):
        for line in self.proc.stdout:
            # PJSIP may write words of its own before logging is silenced.
            if line.startswith(b'{'):
                self.put(json.loads(line))

    def _do(self, what, **more):
        self.proc.stdin.write(json.dumps(dict(do=what, **more)).encode() + b'\n')
        self.proc.stdin.flush()

    def call(self, to):
        self._do('call', to=to)

    def answer(self):
        self._do('answer', code=200)

    def busy(self):
        self._do('answer', code=486)

    def hangup(self):
        self._do('hangup')

    def hold(self):
        self._do('hold')
        self.wait('holding')

    def resume(self):
        self._do('resume')
        self.wait('speaking')

    def heard(self):
        """RTP packets that have come."""
        self._do('heard')
        return self.wait('heard')['packets']

    def message(self, to, text):
        self._do('message', to=to, text=text)

    def register(self):
        """Registers anew, now."""
        self._do('register')

    def stop(self):
        self.quit(3)


class Baresip(Phone):
    """baresip with its ctrl_tcp module: netstrings of JSON both ways."""

    kind = 'baresip'
    NAMES = {'REGISTER_OK': 'registered', 'REGISTER_FAIL': 'unregistered', 'CALL_INCOMING': 'incoming',
             'CALL_RINGING': 'ringing', 'CALL_ESTABLISHED': 'established', 'CALL_CLOSED': 'closed'}

    def start(self):
        self.dir = tempfile.mkdtemp(prefix='strowger-baresip-')
        ip = net.fresh_ip()
        modules = next((d for d in ('/usr/lib/baresip/modules', '/usr/lib/x86_64-linux-gnu/baresip/modules',
                                    '/usr/local/lib/baresip/modules') if os.path.isdir(d)), '/usr/lib/baresip/modules')
        secure = []
        if self.transport == 'tls':
            secure = ['sip_cafile ' + self.server.authority.roots, 'sip_verify_server yes']
        with open(os.path.join(self.dir, 'config'), 'w') as f:
            f.write('\n'.join(secure + [
                'sip_listen %s:5060' % ip, 'net_interface %s' % ip, 'module_path ' + modules,
                'audio_player aubridge,nil', 'audio_source aubridge,nil', 'audio_alert aubridge,nil', 'audio_channels 1',
                'rtp_ports 10000-10100', 'call_local_timeout 120', 'call_max_calls 4', 'ctrl_tcp_listen %s:4444' % ip,
                *(['module ice.so', 'module dtls_srtp.so', 'rtcp_mux yes'] if self.webrtc else []),
                'module g711.so', 'module aubridge.so', 'module_app account.so', 'module_app menu.so', 'module_app ctrl_tcp.so', '']))
        with open(os.path.join(self.dir, 'accounts'), 'w') as f:
            f.write('<%s;transport=%s>;auth_user=%s;auth_pass=%s;outbound="sip:%s:%d;transport=%s";regint=600;answermode=manual;'
                    'audio_codecs=pcmu%s\n' % (self.uri, self.transport, self.user, self.password, *self.place, self.transport,
                                              ';mediaenc=dtls_srtp;medianat=ice' if self.webrtc else ''))
        self.process = Process(['baresip', '-f', self.dir, '-s'] if os.environ.get('BARESIP_TRACE') else ['baresip', '-f', self.dir])
        self.sock = net.poll('%s opens its control port' % self, 15, lambda: self._connect(ip))
        self.reported = False
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def _watch(self):
        """Sees a registration that was reported before the control connection stood: only the terminal has it."""
        for _ in range(200):
            time.sleep(0.1)
            if self.reported:
                return
            if self.process.said('registered successfully') or self.process.said('200 OK'):
                time.sleep(0.3)
                if not self.reported:
                    self.put({'event': 'registered'})
                return

    @staticmethod
    def _connect(ip):
        try:
            return socket.create_connection((ip, 4444), 1)
        except OSError:
            return None

    def _read(self):
        buffered = b''
        self.sock.settimeout(None)
        while True:
            try:
                data = self.sock.recv(65536)
            except OSError:
                return
            if not data:
                return
            buffered += data
            while b':' in buffered:
                length, rest = buffered.split(b':', 1)
                if len(rest) < int(length) + 1:
                    break
                self._event(json.loads(rest[:int(length)]))
                buffered = rest[int(length) + 1:]

    def _event(self, e):
        name = self.NAMES.get(e.get('type'))
        self.reported |= name == 'registered'
        if name == 'closed':
            word = (e.get('param') or '').split(' ')[0]
            self.put({'event': 'closed', 'code': int(word) if word.isdigit() else 0, 'reason': e.get('param')})
        elif name:
            self.put({'event': name, 'from': e.get('peeruri')})

    def _do(self, command, params=None):
        text = json.dumps({k: v for k, v in (('command', command), ('params', params), ('token', net.unique('t'))) if v})
        self.sock.sendall(b'%d:%s,' % (len(text), text.encode()))

    def call(self, to):
        self._do('dial', to)

    def answer(self):
        self._do('accept')

    def busy(self):
        self._do('hangup')

    def hangup(self):
        self._do('hangup')

    def hold(self):
        """Only the other end says when it is done."""
        self._do('hold')

    def resume(self):
        self._do('resume')

    def stop(self):
        try:
            self.sock.close()
        except OSError:
            pass
        self.process.stop(2)
        shutil.rmtree(self.dir, ignore_errors=True)


class Linphone(Phone):
    """linphonec, with commands on its standard input; what happens to it stands in its log."""

    kind = 'linphone'
    STATE = re.compile(r'(?:CallSession|Account) \[.* moving from state \[?\w+\]? to \[?(\w+)')
    NAMES = {'LinphoneCallIncomingReceived': 'incoming', 'LinphoneCallOutgoingRinging': 'ringing',
             'LinphoneCallStreamsRunning': 'established', 'LinphoneCallEnd': 'closed', 'LinphoneCallError': 'closed',
             'LinphoneRegistrationOk': 'registered', 'LinphoneRegistrationFailed': 'unregistered'}

    def start(self):
        self.dir = tempfile.mkdtemp(prefix='strowger-linphone-')
        self.log = os.path.join(self.dir, 'log')
        ports = {kind: (5061 if kind == 'tls' else 5060) if kind == self.transport else 0 for kind in ('udp', 'tcp', 'tls')}
        proxy = '<sip:%s:%d;transport=%s>' % (*self.place, self.transport)
        sections = {
            'sip': dict(bind_address=net.fresh_ip(), sip_port=ports['udp'], sip_tcp_port=ports['tcp'], default_proxy=0,
                        sip_tls_port=ports['tls'], root_ca=self.server.authority.roots if self.server.authority else ''),
            'proxy_0': dict(reg_proxy=proxy, reg_route=proxy, reg_identity=self.uri, reg_sendregister=1, reg_expires=600),
            'auth_info_0': dict(username=self.user, passwd=self.password, realm=self.server.domain)}
        with open(os.path.join(self.dir, 'linphonerc'), 'w') as f:
            for name, keys in sections.items():
                f.write('[%s]\n%s\n' % (name, ''.join('%s=%s\n' % pair for pair in keys.items())))
        # What it keeps goes below its home, where it makes no folder itself.
        os.makedirs(os.path.join(self.dir, '.local/share/linphone'))
        command = ['linphonec', '-c', os.path.join(self.dir, 'linphonerc'), '-d', '6', '-l', self.log]
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     start_new_session=True, env=dict(os.environ, HOME=self.dir))
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def _do(self, line):
        self.proc.stdin.write(line.encode() + b'\n')
        self.proc.stdin.flush()

    def _read(self):
        net.poll('%s writes its log' % self, 15, lambda: os.path.exists(self.log))
        with open(self.log, errors='replace') as f:
            line = ''
            while self.proc.poll() is None:
                line += f.readline()
                if not line.endswith('\n'):
                    time.sleep(0.02)
                    continue
                state, line = self.STATE.search(line), ''
                if state and state.group(1) in self.NAMES:
                    self.put({'event': self.NAMES[state.group(1)], 'code': 0})

    def call(self, to):
        self._do('call ' + to)

    def answer(self):
        self._do('answer')

    def hangup(self):
        self._do('terminate')

    def stop(self):
        self.quit(3)
        shutil.rmtree(self.dir, ignore_errors=True)
