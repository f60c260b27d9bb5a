"""Scenarios with a browser: JsSIP and SIP.js in headless Chromium, over WebSocket and TLS, with each other and with phones
over UDP. Where the other end is baresip, media are those of WebRTC: DTLS-SRTP, ICE, and RTCP on the port of RTP."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

import phones
from harness import net, servers
from scenarios import LeftOut, dismiss, must, registered, scenario, set_up, talk

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'browser')
CACHE = os.path.abspath(os.path.join(HERE, '..', '..', '..', '.cache', 'browser'))
KINDS = ('jssip', 'sipjs')
CREW = [(name, 'secret') for name in ('jssip', 'sipjs', 'b1', 'p1')]


def bundle():
    """The page's program, made of the packages that verify/setup.sh installs."""
    missing = [tool for tool in ('chromium', 'node', 'openssl') if not shutil.which(tool)]
    if missing or not os.path.isdir(os.path.join(CACHE, 'node_modules')):
        raise LeftOut('%s: run verify/setup.sh test' % (', '.join(missing) or 'no packages for the browser'))
    out = os.path.join(CACHE, 'page.bundle.js')
    made = subprocess.run([os.path.join(CACHE, 'node_modules', '.bin', 'esbuild'), os.path.join(HERE, 'page.js'), '--bundle',
                           '--log-level=error', '--outfile=' + out], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, NODE_PATH=os.path.join(CACHE, 'node_modules')))
    must(made.returncode == 0, made.stderr)
    return out


def pin(chain):
    """The hash of a certificate's public key, as Chromium's option wants it."""
    key = subprocess.run(['openssl', 'x509', '-in', chain, '-pubkey', '-noout'], capture_output=True, timeout=30).stdout
    der = subprocess.run(['openssl', 'pkey', '-pubin', '-outform', 'der'], input=key, capture_output=True, timeout=30).stdout
    hashed = subprocess.run(['openssl', 'dgst', '-sha256', '-binary'], input=der, capture_output=True, timeout=30).stdout
    return subprocess.run(['openssl', 'base64'], input=hashed, capture_output=True, timeout=30).stdout.decode().strip()


class Browser(phones.Phone):
    """A phone in a browser of its own. Its kind is that of its library."""

    def __init__(self, kind, server):
        super().__init__(kind, 'secret', server, 'wss')
        self.kind = kind

    def open(self, *url):
        """Opens its own page, or the one at this URL."""
        self.profile = tempfile.mkdtemp(prefix='strowger-browser-')
        words = ['node', os.path.join(HERE, 'driver.js'), shutil.which('chromium'), bundle(), self.profile, pin(self.server.chain), *url]
        self.proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     start_new_session=True, env=dict(os.environ, NODE_PATH=os.path.join(CACHE, 'node_modules')))
        threading.Thread(target=self._read, daemon=True).start()
        self.wait('ready', 60)

    def start(self):
        self.open()
        self._do('begin', dict(kind=self.kind, url='wss://%s:%d' % self.place, uri=self.uri, user=self.user,
                               password=self.password))
        return self

    @property
    def place(self):
        return self.server.place('wss')

    def _read(self):
        for line in self.proc.stdout:
            self.put(json.loads(line))

    def _do(self, what, *words):
        self.proc.stdin.write(json.dumps(dict(do=what, words=words)).encode() + b'\n')
        self.proc.stdin.flush()

    def call(self, to):
        self._do('call', to)

    def answer(self):
        self._do('answer')

    def busy(self):
        self._do('busy')

    def hangup(self):
        self._do('hangup')

    def hold(self):
        self._do('hold')
        self.wait('holding')

    def resume(self):
        self._do('resume')
        self.wait('speaking')

    def message(self, to, text):
        self._do('message', to, text)

    def stop(self):
        self.quit(10)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page(Browser):
    """The page in deploy/browser, used like a person would. The changes of its state are the events."""

    def __init__(self, user, server, url):
        super().__init__(user, server)
        self.url = url

    def start(self):
        self.open(self.url)
        return self

    def connect(self, password):
        for field, text in (('server', 'wss://%s:%d' % self.place), ('address', self.uri[4:]), ('password', password)):
            self._do('fill', field, text)
        self.click('connect')

    def dial(self, uri):
        self._do('fill', 'callee', uri[4:])
        self.click('call')

    def click(self, button):
        self._do('click', button)


def refused(caller, callee):
    """A call that the callee is too busy for."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    callee.busy()
    caller.wait('refused' if caller.kind == 'sipjs' else 'closed', code=486)


def cancelled(caller, callee):
    """A call that the caller gives up before it is answered."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    caller.hangup()
    callee.wait('closed')


def held(phone, browser, caller):
    """baresip puts the browser on hold and resumes. In a call of the browser, the browser does the same."""
    phone.hold()
    browser.wait('held')
    phone.resume()
    browser.wait('released')
    # In a call that baresip began, it answers a later offer with `setup:actpass`, which an answer must not have (RFC 5763
    # section 5), and a browser ends the call.
    if caller is browser:
        browser.hold()
        browser.resume()


@scenario
def browsers(run):
    """JsSIP and SIP.js in Chromium over WSS: calls both ways, hold, busy, cancel, MESSAGE, restart of the server."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        pair = registered([Browser(kind, server) for kind in KINDS], 60)
        try:
            for caller, callee in (pair, pair[::-1]):
                talk(caller, callee)
                set_up(caller, callee)
                caller.hold()
                caller.resume()
                callee.hangup()
                caller.wait('closed')
                refused(caller, callee)
                cancelled(caller, callee)
                caller.message(callee.uri, 'hello from ' + caller.kind)
                callee.wait('message', text='hello from ' + caller.kind)
            for phone in pair:
                phone.forget()
            server.kill()
            server.start()
            for phone in pair:
                phone.wait('registered', 60)
            talk(*pair)
            talk(*pair[::-1])
            made = server.metric('strowger_websocket_handshakes_total')
            must(made >= 2, made, 'handshakes after the restart')
            must(server.metric('strowger_websocket_faults_total') == 0, 'faults of WebSocket')
            return '8 calls set up, 2 refused, 2 cancelled'
        finally:
            dismiss(pair)


@scenario
def browsers_and_udp(run):
    """JsSIP and SIP.js with baresip and PJSIP over UDP: calls both ways, hold, busy, cancel, MESSAGE, restart of the server."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        # The package of PJSIP has no DTLS-SRTP.
        others = [phones.Baresip('b1', 'secret', server, 'udp', webrtc=True), phones.Pjsip('p1', 'secret', server, 'udp')]
        pair = registered([Browser(kind, server) for kind in KINDS], 60)
        try:
            phone, texter = registered(others)
            for browser in pair:
                for caller, callee in ((browser, phone), (phone, browser)):
                    set_up(caller, callee)
                    held(phone, browser, caller)
                    callee.hangup()
                    caller.wait('closed')
                    refused(caller, callee)
                    cancelled(caller, callee)
                for sender, receiver in ((browser, texter), (texter, browser)):
                    receiver.forget()
                    sender.message(receiver.uri, 'hello from ' + sender.kind)
                    receiver.wait('message', text='hello from ' + sender.kind)
            for browser in pair:
                browser.forget()
            server.kill()
            server.start()
            for browser in pair:
                browser.wait('registered', 60)
                # The phone on UDP has not noticed, and its binding was kept.
                talk(browser, phone)
                talk(phone, browser)
            must(server.metric('strowger_websocket_faults_total') == 0, 'faults of WebSocket')
            return '8 calls set up, 4 refused, 4 cancelled, 4 messages'
        finally:
            dismiss(pair + others)


@scenario
def browser_call_goes_on(run):
    """A call of JsSIP with a phone over UDP goes on after `kill -9` and a restart: hold and BYE of both ends."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        phone = phones.Baresip('b1', 'secret', server, 'udp', webrtc=True)
        # SIP.js ends its calls when it loses the server.
        (browser,) = registered([Browser('jssip', server)], 60)
        try:
            registered([phone])
            for caller, callee, last in ((browser, phone, browser), (phone, browser, phone)):
                set_up(caller, callee)
                browser.forget()
                server.kill()
                server.start()
                browser.wait('registered', 60)
                held(phone, browser, caller)
                last.hangup()
                (phone if last is browser else browser).wait('closed')
            return '2 calls over 2 restarts'
        finally:
            dismiss([browser, phone])


@scenario
def browser_page(run):
    """The page in deploy/browser: a call between two, one that is declined, a wrong password, a restart of the server."""
    with servers.Strowger(run.bin, users=CREW, secure=True) as server, tempfile.TemporaryDirectory(prefix='strowger-page-') as folder:
        page = shutil.copytree(os.path.join(HERE, '..', '..', '..', 'deploy', 'browser'), os.path.join(folder, 'phone'))
        bundle()
        os.symlink(os.path.join(CACHE, 'node_modules'), os.path.join(page, 'node_modules'))
        place = net.fresh_ip()
        web = servers.Process([sys.executable, '-m', 'http.server', '--bind', place, '8000'], cwd=page)
        pair = [Page(user, server, 'http://%s:8000/' % place) for user in KINDS]
        try:
            net.poll('the page is served', 15, lambda: reached(place))
            for one in pair:
                one.start()
            caller, callee = pair
            caller.connect('wrong')
            caller.wait('refused: is the password right?')
            caller.stop()
            caller.start()
            for one in pair:
                one.connect('secret')
                one.wait('ready', 30)
            for ending in (caller, callee):
                caller.dial(callee.uri)
                callee.wait('incoming call')
                callee.click('answer')
                for one in pair:
                    one.wait('in a call')
                ending.click('hangup')
                for one in pair:
                    one.wait('ready')
            caller.dial(callee.uri)
            callee.wait('incoming call')
            callee.click('hangup')
            caller.wait('480 Temporarily Unavailable')
            server.kill()
            for one in pair:
                one.wait('not connected')
            server.start()
            for one in pair:
                one.wait('ready', 60)
            return '2 calls, 1 declined'
        finally:
            dismiss(pair)
            web.stop()


def reached(place):
    try:
        socket.create_connection((place, 8000), 1).close()
        return True
    except OSError:
        return False
