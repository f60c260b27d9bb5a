"""Starting and ending the servers under test. Each has its own session; only that session is ended."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from . import net
from .authority import Authority

HERE = os.path.dirname(os.path.abspath(__file__))


class Process:
    """A child in a session of its own, its standard error kept line by line."""

    def __init__(self, cmd, cwd=None, env=None, stdin=None):
        self.cmd = cmd
        self.lines, self.times = [], []
        self.proc = subprocess.Popen(
            cmd, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=cwd, env=env, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.times.append(time.time())
            self.lines.append(line.decode('utf-8', 'replace').rstrip())

    def said(self, text):
        return any(text in line for line in list(self.lines))

    def said_at(self, text):
        """When it said this first, seconds since the epoch; now if it did not."""
        return next((at for at, line in zip(self.times, list(self.lines)) if text in line), time.time())

    def log(self, last=40):
        return '\n'.join(self.lines[-last:])

    def running(self):
        return self.proc.poll() is None

    def pids(self):
        """Every process of its session."""
        out = []
        for entry in os.listdir('/proc'):
            if entry.isdigit():
                try:
                    with open('/proc/%s/stat' % entry) as f:
                        after = f.read().rsplit(')', 1)[1].split()
                except OSError:
                    continue
                if int(after[3]) == self.proc.pid and after[0] != 'Z':
                    out.append(int(entry))
        return out

    def _signal(self, number):
        try:
            os.killpg(self.proc.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        self._signal(signal.SIGKILL)
        self.proc.wait()

    def pause(self):
        """It does nothing any more, and its sockets stay: SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def go_on(self):
        self._signal(signal.SIGCONT)

    def terminate(self):
        """SIGTERM once, as a service manager does; it may take its time."""
        self._signal(signal.SIGTERM)

    def stop(self, seconds=5):
        """SIGTERM twice (the second ends a draining server), then SIGKILL to what is left."""
        for _ in range(2):
            if self.running():
                self._signal(signal.SIGTERM)
                try:
                    self.proc.wait(seconds / 2)
                except subprocess.TimeoutExpired:
                    pass
        self._signal(signal.SIGKILL)
        self.proc.wait()


class Strowger:
    """`strowger serve` on an address of its own. Use as a context manager."""

    def __init__(self, binary, domain='example.com', workers=2, auth=True, users=(), config='', data=None, cpu=None,
                 also=(), steering='auto', ip=None, prefix=(), secure=False):
        """`secure`: it listens for TLS and WSS as well, with a certificate of this authority or of one of its own."""
        self.steering, self.prefix = steering, list(prefix)
        self.binary, self.workers, self.auth, self.cpu, self.also = binary, workers, auth, cpu, also
        self.ip, self.port = ip or net.fresh_ip(), 5060
        # "{ip}" stands for the server's own address as its domain.
        self.domain = domain.replace('{ip}', self.ip)
        self.admin = '%s:8080' % self.ip
        self.dir = tempfile.mkdtemp(prefix='strowger-')
        self.data = os.path.join(self.dir, 'data')
        self.process = None
        if data:
            shutil.copytree(data, self.data)
        else:
            os.makedirs(self.data, mode=0o700)
        self.config = os.path.join(self.dir, 'strowger.toml')
        with open(self.config, 'w') as f:
            f.write(config)
        self.authority = secure if isinstance(secure, Authority) else Authority(os.path.join(self.dir, 'tls')) if secure else None
        if secure:
            self.chain, self.key = self.authority.issue(self.domain, [self.domain, 'IP:' + self.ip, self.ip])  # linphone reads no addresses
        if users:
            import_users(binary, users, self.data, self.domain)

    @property
    def address(self):
        return (self.ip, self.port)

    def place(self, transport):
        """The address and port for phones on this transport."""
        return (self.ip, {'tls': 5061, 'wss': 5443}.get(transport, self.port))

    def start(self):
        listen = '%s:%d' % self.address
        cmd = self.prefix + (['taskset', '-c', str(self.cpu)] if self.cpu is not None else [])
        cmd += [self.binary, 'serve', '--config', self.config, '--listen', 'udp:' + listen, '--listen', 'tcp:' + listen,
                '--domain', self.domain, '--data-dir', self.data, '--workers', str(self.workers),
                '--steering', self.steering, '--admin', self.admin, '--auth', 'on' if self.auth else 'off']
        for domain in self.also:
            cmd += ['--domain', domain]
        if self.authority:
            cmd += [word for kind in ('tls', 'wss') for word in ('--listen', '%s:%s:%d' % (kind, *self.place(kind)))]
            cmd += ['--tls-cert', self.chain, '--tls-key', self.key]
        self.process = Process(cmd)
        try:
            self.wait('ready')
        except BaseException:
            # It has a session of its own, so an interruption does not reach it.
            self.process.stop()
            raise
        return self

    def wait(self, word, seconds=60):
        end = time.monotonic() + seconds
        while not self.process.said(word):
            if not self.process.running():
                raise AssertionError('the server ended before it was ready:\n' + self.process.log())
            if time.monotonic() > end:
                raise AssertionError('the server never said %r:\n%s' % (word, self.process.log()))
            time.sleep(0.02)

    def metric(self, name):
        """A figure of /metrics, its labels written as there."""
        with urllib.request.urlopen('http://%s/metrics' % self.admin, timeout=20) as page:
            lines = page.read().decode().splitlines()
        return float(next(line.rpartition(' ')[2] for line in lines if line.startswith(name + ' ')))

    def kill(self):
        self.process.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process:
            self.process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


class Balancer:
    """`strowger balance` in front of these nodes (host:port, with `;weight=N` if wanted). Use as a context manager. `whole`:
    the configuration says where it listens and what its nodes are, too."""

    def __init__(self, binary, nodes, workers=1, algorithm='tlwl', config='', cpu=None, ip=None, prefix=(), listen=None,
                 secret=None, steering='auto', whole=False):
        self.binary, self.nodes, self.workers, self.algorithm = binary, list(nodes), workers, algorithm
        self.ip, self.port, self.cpu, self.prefix = ip or net.fresh_ip(), 5060, cpu, list(prefix)
        self.listen = [] if whole else listen or ['%s:%d' % self.address]
        self.options = [word for address in self.listen for word in ('--listen', 'udp:' + address)]
        self.options += [word for node in self.nodes for word in ('--node', 'sip:' + node)] if not whole else []
        self.admin = '%s:8080' % self.ip
        self.dir = tempfile.mkdtemp(prefix='strowger-balance-')
        self.data = os.path.join(self.dir, 'data')
        os.makedirs(self.data, mode=0o700)
        if secret:
            # That of another balancer, whose calls this one may take over.
            with open(os.open(os.path.join(self.data, 'secret'), os.O_WRONLY | os.O_CREAT, 0o600), 'wb') as f:
                f.write(secret)
        self.config = os.path.join(self.dir, 'strowger.toml')
        with open(self.config, 'w') as f:
            f.write('steering = "%s"\n%s' % (steering, config))
        self.process = None

    @property
    def address(self):
        return (self.ip, self.port)

    def start(self):
        cmd = self.prefix + (['taskset', '-c', str(self.cpu)] if self.cpu is not None else [])
        cmd += [self.binary, 'balance', '--config', self.config, '--data-dir', self.data, '--admin', self.admin,
                '--workers', str(self.workers), '--algorithm', self.algorithm]
        self.process = Process(cmd + self.options)
        net.poll('the balancer is ready', 30, lambda: self.process.said('ready') or not self.process.running())
        if not self.process.running():
            raise AssertionError('the balancer did not start:\n' + self.process.log())
        return self

    def ctl(self, *args):
        """`strowger ctl`: its output."""
        done = subprocess.run(self.prefix + [self.binary, 'ctl', *args, '--admin', self.admin], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise AssertionError('ctl %s: %s' % (' '.join(args), done.stdout))
        return done.stdout

    def all_nodes(self):
        """What `ctl nodes` says of each node, by its name."""
        return dict((node['name'], node) for node in json.loads(self.ctl('nodes', '--output', 'json'))['items'])

    def page(self):
        """All figures of /metrics as text."""
        return subprocess.run(self.prefix + [sys.executable, '-c', 'import sys, urllib.request as u; print(u.urlopen('
                              'sys.argv[1], timeout=20).read().decode())', 'http://%s/metrics' % self.admin],
                              stdout=subprocess.PIPE, text=True, check=True).stdout

    def metric(self, name):
        """A figure of /metrics, its labels written as there."""
        return float(next(line.rpartition(' ')[2] for line in self.page().splitlines() if line.startswith(name + ' ')))

    def calls(self):
        """Calls that are up, as it counts them."""
        return sum(node['calls'] for node in self.all_nodes().values())

    def kill(self):
        self.process.kill()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process:
            self.process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def import_users(binary, users, data, domain):
    """`strowger user import` of (name, password) pairs."""
    with tempfile.NamedTemporaryFile('w', suffix='.csv', delete=False) as f:
        f.write('username,domain,password\n')
        f.writelines('%s,%s,%s\n' % (u, domain, p) for u, p in users)
    try:
        done = subprocess.run([binary, 'user', 'import', f.name, '--data-dir', data], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise AssertionError('user import failed: ' + done.stdout)
    finally:
        os.unlink(f.name)


class Kamailio:
    """Kamailio with one of our configurations. `defines` become #!define lines in front of it."""

    def __init__(self, config, defines=(), memory=64, extra=(), cpu=None, tcp=True, secure=False):
        """`secure`: it listens for TLS as well, where the configuration heeds WITH_TLS."""
        self.ip, self.port, self.domain = net.fresh_ip(), 5060, 'example.com'
        self.dir = tempfile.mkdtemp(prefix='strowger-kamailio-')
        self.memory, self.extra, self.cpu, self.tcp = memory, list(extra), cpu, tcp
        self.authority = Authority(os.path.join(self.dir, 'tls')) if secure else None
        self.secure = secure
        if secure:
            chain, key = self.authority.issue(self.domain, [self.domain, 'IP:' + self.ip])
            defines = [*defines, 'WITH_TLS', 'CHAIN "%s"' % chain, 'KEY "%s"' % key]
        with open(config) as f:
            body = f.read()
        self.config = os.path.join(self.dir, 'kamailio.cfg')
        with open(self.config, 'w') as f:
            f.write('#!KAMAILIO\n' + ''.join('#!define %s\n' % d for d in defines) + body)
        self.process = None

    @property
    def address(self):
        return (self.ip, self.port)

    def place(self, transport):
        """The address and port for phones on this transport."""
        return (self.ip, 5061 if transport == 'tls' else self.port)

    @staticmethod
    def binary():
        return shutil.which('kamailio', path=os.environ.get('PATH', '') + ':/usr/sbin')

    def start(self):
        cmd = ['taskset', '-c', str(self.cpu)] if self.cpu is not None else []
        cmd += [self.binary(), '-f', self.config, '-DD', '-E', '-m', str(self.memory), '-M', '16',
                '-Y', self.dir, '-P', os.path.join(self.dir, 'pid'), '-l', 'udp:%s:%d' % self.address]
        cmd += ['-l', 'tcp:%s:%d' % self.address] if self.tcp else []
        cmd += ['-l', 'tls:%s:%d' % self.place('tls')] if self.secure else []
        self.process = Process(cmd + self.extra)
        client = net.Client(self.address, domain='probe.invalid')
        try:
            # The clock of an emulated machine leaps while files come from the host: no less than so many probes.
            end, probes = time.monotonic() + 30, 0
            # Max-Forwards 0 would do, too; any answer shows that it is up.
            while client._once('OPTIONS', 'sip:%s' % self.ip, net.unique('probe'), '<sip:%s>' % self.ip, []) is None:
                probes += 1
                if not self.process.running() or (time.monotonic() > end and probes > 20):
                    raise AssertionError('Kamailio did not start:\n' + self.process.log())
        except BaseException:
            # It has a session of its own, so an interruption does not reach it.
            self.process.stop()
            raise
        finally:
            client.close()
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process:
            self.process.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
