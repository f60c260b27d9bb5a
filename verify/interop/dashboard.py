"""The dashboard of `serve` and `balance` in headless Chromium, with users who register and call each other."""
import itertools
import os
import queue
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading

from browsers import CACHE, HERE
from harness import net, servers
from scenarios import LeftOut, must, scenario

NAMES = ('alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace', 'heidi', 'ivan', 'judy', 'ken', 'laura', 'mike', 'nina',
         'oscar', 'peggy', 'quentin', 'rita', 'sam', 'trudy', 'uma', 'victor', 'wendy', 'xavier')
USERS = [(name, 'secret') for name in NAMES]
AGENTS = ('Zoiper v5.6.1', 'Linphone/5.2.4', 'Yealink SIP-T46U 108.86.0.20', 'baresip v3.9.0')
# What a stranger would like a page to run.
IMAGE, SCRIPT = '<img src=x onerror=hacked=1>', '<script>hacked=1</script>'
# In CI charts are not filled for pictures.
FILLED, PATIENCE = 70, 5


class Town:
    """Phones of many users on one socket, without media: they register, call each other, and answer. `ring` only rings,
    and `busy` is. Use as a context manager."""

    def __init__(self, server):
        self.domain, self.server = server.domain, server.address
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.sock.bind((net.fresh_ip(), 5060))
        self.place = '%s:%d' % self.sock.getsockname()
        self.answers, self.over = {}, threading.Event()
        self.numbers = itertools.count(1)

    def __enter__(self):
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.sock.close()

    def _read(self):
        while not self.over.is_set():
            try:
                text = self.sock.recv(65536).decode('latin-1')
            except OSError:
                return
            first, _, rest = text.partition('\r\n')
            fields = [line.split(': ', 1) for line in rest.split('\r\n\r\n')[0].split('\r\n') if ': ' in line]
            call_id = next((value for name, value in fields if name == 'Call-ID'), '')
            if first.startswith('SIP/2.0 '):
                if call_id in self.answers:
                    self.answers[call_id].put((int(first.split()[1]), fields))
            elif not first.startswith('ACK '):
                self._answer(first, fields)

    def _answer(self, first, fields):
        kept = [(name, value) for name, value in fields if name in ('Via', 'Record-Route', 'From', 'To', 'Call-ID', 'CSeq')]
        status = '200 OK'
        if first.startswith('INVITE '):
            status = '486 Busy Here' if 'sip:busy@' in first else '180 Ringing' if 'sip:ring@' in first else status
        kept = [(name, value + ';tag=callee' if name == 'To' and ';tag=' not in value else value) for name, value in kept]
        self._send('SIP/2.0 ' + status, kept + [('Contact', '<sip:callee@%s>' % self.place)])

    def _send(self, first, fields):
        lines = [first] + ['%s: %s' % field for field in fields] + ['Content-Length: 0', '', '']
        self.sock.sendto('\r\n'.join(lines).encode(), self.server)

    def uri(self, user):
        return 'sip:%s@%s' % (user, self.domain)

    def _request(self, method, target, sender, to, call_id, cseq=1, more=(), branch=None):
        branch = branch or next(self.numbers)
        via = 'SIP/2.0/UDP %s;branch=z9hG4bK%d' % (self.place, branch)
        self._send('%s %s SIP/2.0' % (method, target), [
            ('Via', via), ('From', '%s;tag=caller' % sender), ('To', to), ('Call-ID', call_id), ('CSeq', '%d %s' % (cseq, method)),
            ('Max-Forwards', '70'), ('Contact', '<sip:caller@%s>' % self.place)] + list(more))
        return branch

    def wait(self, call_id, final=True):
        """The next answer, or the next final one: its status and header fields."""
        while True:
            try:
                status, fields = self.answers[call_id].get(timeout=20)
            except queue.Empty:
                raise AssertionError('no answer to ' + call_id)
            if status >= 200 or not final:
                return status, fields

    def register(self, users):
        """Registers users with their User-Agents, some at a time."""
        for at in range(0, len(users), 100):
            some = [('reg-%s-%d' % (self.place, at + n), *user) for n, user in enumerate(users[at:at + 100])]
            for call_id, user, agent in some:
                self.answers[call_id] = queue.Queue()
                contact = ('Contact', '<sip:%s@%s>' % (user, self.place))
                self._send('REGISTER sip:%s SIP/2.0' % self.domain, [
                    ('Via', 'SIP/2.0/UDP %s;branch=z9hG4bK%d' % (self.place, next(self.numbers))), ('From', '<%s>;tag=r' % self.uri(user)),
                    ('To', '<%s>' % self.uri(user)), ('Call-ID', call_id), ('CSeq', '1 REGISTER'), ('Max-Forwards', '70'), contact,
                    ('Expires', '3600'), ('User-Agent', agent)])
            for call_id, user, _ in some:
                status = self.wait(call_id)[0]
                must(status == 200, 'REGISTER of', user, 'got', status)
                del self.answers[call_id]

    def invite(self, caller, callee, call_id=None, target=None):
        """Sends an INVITE; the call."""
        call_id = call_id or 'call-%d@%s' % (next(self.numbers), self.place)
        self.answers[call_id] = queue.Queue()
        sender, to = '"%s" <%s>' % (caller.title(), self.uri(caller)), '<%s>' % self.uri(callee)
        branch = self._request('INVITE', target or self.uri(callee), sender, to, call_id)
        return call_id, sender, to, branch

    def talk(self, caller, callee, seconds):
        """A call that lasts for `seconds`, if it is answered."""
        call_id, sender, to, branch = self.invite(caller, callee)
        status, fields = self.wait(call_id)
        to = next(value for name, value in fields if name == 'To')
        if status >= 300:
            self._request('ACK', self.uri(callee), sender, to, call_id, branch=branch)
            return
        target = re.search('<(.*?)>', next(value for name, value in fields if name == 'Contact')).group(1)
        route = [('Route', value) for name, value in reversed(fields) if name == 'Record-Route']
        self._request('ACK', target, sender, to, call_id, more=route)
        self.over.wait(seconds)
        self._request('BYE', target, sender, to, call_id, cseq=2, more=route)

    def live(self):
        """Calls go on until the end."""
        threads = []
        while not self.over.wait(random.uniform(0.1, 0.5)):
            caller, callee = random.sample(NAMES, 2)
            if random.random() < 0.15:
                callee = 'busy'
            threads.append(threading.Thread(target=self._try, args=(caller, callee), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(5)

    def _try(self, caller, callee):
        try:
            self.talk(caller, callee, random.uniform(2, 25))
        except (AssertionError, OSError, StopIteration):
            pass  # the town is closing


def look(url, step, seconds=0, token=None):
    """Runs a step of dashboard.js; what it found."""
    missing = [tool for tool in ('chromium', 'node') if not shutil.which(tool)]
    if missing or not os.path.isdir(os.path.join(CACHE, 'node_modules', 'axe-core')):
        raise LeftOut('%s: run verify/setup.sh test' % (', '.join(missing) or 'no packages for the browser'))
    with tempfile.TemporaryDirectory(prefix='strowger-browser-') as profile:
        pictures = os.environ.get('DASHBOARD_PICTURES', '-')
        words = ['node', os.path.join(HERE, 'dashboard.js'), shutil.which('chromium'), profile, url, step, pictures, str(seconds)]
        done = subprocess.run(words + ([token] if token else []), capture_output=True, text=True, timeout=300 + seconds,
                              start_new_session=True, env=dict(os.environ, NODE_PATH=os.path.join(CACHE, 'node_modules')))
    must(done.returncode == 0, '%s: %s' % (step, done.stderr.strip()))
    return done.stdout.strip()


@scenario
def dashboard(run):
    """The dashboard in Chromium: pages, live values, searches, widths, axe; names of strangers stay text; a balancer's, with a token."""
    with servers.Strowger(run.bin, workers=2, auth=False, users=USERS) as server, Town(server) as town:
        url = 'http://%s/' % server.admin
        town.register([(name, AGENTS[at % len(AGENTS)]) for at, name in enumerate(NAMES + ('busy', 'ring'))])
        calls = threading.Thread(target=town.live, daemon=True)
        calls.start()
        users = run.size(100000, 300)
        if 'DASHBOARD_PICTURES' not in os.environ:
            town.register([('user%06d' % n, 'snom') for n in range(users)])
        else:
            town.register([('desk%d' % n, AGENTS[n % len(AGENTS)]) for n in range(60)])
        said = look(url, 'tour', PATIENCE if 'DASHBOARD_PICTURES' not in os.environ else FILLED)
        town.register([('mallory', IMAGE)])
        call_id, *_ = town.invite('mallory', 'ring', SCRIPT)
        must(town.wait(call_id, final=False)[0] < 200, 'the call does not ring')
        town.invite('mallory', 'ring', 'away@x', 'sip:%3Cimg%20src=x%3E@elsewhere.invalid')
        town.wait('away@x')
        look(url, 'hostile')
        with tempfile.NamedTemporaryFile('w', prefix='strowger-token-') as file:
            token = 'a-token-for-the-browser'
            file.write(token)
            file.flush()
            config = '[admin]\ntoken_file = "%s"\n' % file.name
            with servers.Balancer(run.bin, ['%s:%d' % server.address], config=config) as balancer:
                look('http://%s/' % balancer.admin, 'balance', token=token)
        return said
