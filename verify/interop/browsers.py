"""Scenarios with a browser: JsSIP and SIP.js in headless Chromium, over WebSocket and TLS."""
import json
import os
import shutil
import subprocess
import tempfile
import threading

import phones
from harness import servers
from scenarios import LeftOut, dismiss, must, scenario, set_up, talk

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'browser')
CACHE = os.path.abspath(os.path.join(HERE, '..', '..', '..', '.cache', 'browser'))
CREW = [(name, 'secret') for name in ('jssip', 'sipjs')]


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

    def start(self):
        self.profile = tempfile.mkdtemp(prefix='strowger-browser-')
        words = ['node', os.path.join(HERE, 'driver.js'), shutil.which('chromium'), bundle(), self.profile, pin(self.server.chain)]
        self.proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     start_new_session=True, env=dict(os.environ, NODE_PATH=os.path.join(CACHE, 'node_modules')))
        threading.Thread(target=self._read, daemon=True).start()
        self.wait('ready', 60)
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


def refused(caller, callee):
    """A call that the callee is too busy for."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    callee.busy()
    if caller.kind == 'jssip':
        caller.wait('closed', code=486)
    else:
        caller.wait('refused', code=486)


def cancelled(caller, callee):
    """A call that the caller gives up before it is answered."""
    caller.forget()
    callee.forget()
    caller.call(callee.uri)
    callee.wait('incoming')
    caller.hangup()
    callee.wait('closed')


@scenario
def browsers(run):
    """JsSIP and SIP.js in Chromium over WSS: calls both ways, hold, busy, cancel, MESSAGE, restart of the server."""
    with servers.Strowger(run.bin, workers=2, users=CREW, secure=True) as server:
        pair = [Browser(kind, server) for kind, _ in CREW]
        started = []
        try:
            for phone in pair:
                started.append(phone)
                phone.start()
            for phone in pair:
                phone.wait('registered', 30)
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
            dismiss(started)
