"""Where balance_failure.py has its balancers: on loopback, or in network namespaces with one bridge between them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from harness import net, servers

HERE = os.path.dirname(os.path.abspath(__file__))
DEPLOY = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'deploy')


def shipped(*path, pairs):
    """A file of deploy/ with each first thing in place of the second one; a thing that is not there is a mistake."""
    with open(os.path.join(DEPLOY, *path)) as f:
        text = f.read()
    for old, _ in pairs:
        assert old in text, 'deploy/%s has no %s' % ('/'.join(path), old)
    # All at once, for what takes the place of one may look like another.
    return re.sub('|'.join(re.escape(old) for old, _ in pairs), lambda found: dict(pairs)[found[0]], text)


class Loopback:
    """One balancer; everybody has an address of 127.0.0.0/8."""

    def __init__(self, o):
        self.o = o
        self.service = net.fresh_ip()
        self._nodes, self._phones = {}, net.fresh_ip()

    @staticmethod
    def missing():
        return None

    def phones(self):
        return self._phones, ()

    def node(self, at):
        return self._nodes.setdefault(at, net.fresh_ip()), ()

    def sources(self):
        return [self.service]

    def balancers(self, binary, nodes, secret, config):
        return [servers.Balancer(binary, nodes, self.o.workers, self.o.algorithm, config, ip=self.service, secret=secret)]

    def callers(self, which):
        """Address, what to put before the command, further options of the generator."""
        return net.fresh_ip(), [], []

    def begin(self, scene):
        pass

    def end(self):
        pass


def ip(*words):
    subprocess.run(['ip', *words], check=True, stdout=subprocess.DEVNULL)


class Namespaces:
    """`hub` has the bridge; `left` and `right` a balancer each, `nodes` the nodes and phones, `calls` the callers."""

    NAMES = ('hub', 'left', 'right', 'nodes', 'calls')
    OWN = {'left': '10.64.0.11', 'right': '10.64.0.12', 'nodes': '10.64.0.20', 'calls': '10.64.0.40'}
    # In a namespace of its own, that is a balancer's own loopback.
    ADMIN = '127.0.0.1:8080'
    NODE, PHONES = '10.64.0.%d', '10.64.0.30'
    # Callers have many addresses, so that they take many ways.
    STANDING, FRESH, PROBE = ('10.64.1.1', '10.64.1.32'), ('10.64.1.41', '10.64.1.72'), '10.64.1.99'

    def __init__(self, o):
        self.o = o
        self.tag = 'sw%d' % (os.getpid() % 100000)
        self.threads, self.running = [], True
        try:
            self.build()
        except BaseException:
            self.end()
            raise

    @staticmethod
    def missing():
        if not shutil.which('ip', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin'):
            return 'no ip command (apt-get install iproute2)'
        name = 'sw%d-try' % os.getpid()
        done = subprocess.run(['ip', 'netns', 'add', name], stderr=subprocess.PIPE, text=True)
        subprocess.run(['ip', 'netns', 'del', name], stderr=subprocess.DEVNULL)
        return 'no network namespaces without the right to make them: ' + done.stderr.strip() if done.returncode else None

    def name(self, place):
        return '%s-%s' % (self.tag, place)

    def inside(self, place):
        return ['ip', 'netns', 'exec', self.name(place)]

    def build(self):
        for place in self.NAMES:
            ip('netns', 'add', self.name(place))
            ip('-n', self.name(place), 'link', 'set', 'lo', 'up')
        hub = self.name('hub')
        ip('-n', hub, 'link', 'add', 'bridge', 'type', 'bridge')
        ip('-n', hub, 'link', 'set', 'bridge', 'up')
        for place, own in self.OWN.items():
            ip('-n', hub, 'link', 'add', place, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.name(place))
            ip('-n', hub, 'link', 'set', place, 'master', 'bridge', 'up')
            ip('-n', self.name(place), 'link', 'set', 'eth0', 'up')
            # One network, so that nobody needs a router.
            self.address(place, own)
        for at in range(8):
            self.address('nodes', self.NODE % (21 + at))
        self.address('nodes', self.PHONES)
        for first, last in (self.STANDING, self.FRESH, (self.PROBE, self.PROBE)):
            for at in range(int(first.split('.')[3]), int(last.split('.')[3]) + 1):
                self.address('calls', '10.64.1.%d' % at)

    def address(self, place, own):
        ip('-n', self.name(place), 'address', 'add', own + '/16', 'dev', 'eth0')

    def sysctl(self, place, *settings):
        subprocess.run(self.inside(place) + ['sysctl', '-qw', *settings], check=True)

    def phones(self):
        return self.PHONES, self.inside('nodes')

    def node(self, at):
        return self.NODE % (21 + at), self.inside('nodes')

    def sources(self):
        return [self.service, self.OWN['left'], self.OWN['right']]

    def callers(self, which):
        if which == 'probe':
            return self.PROBE, self.inside('calls'), []
        first, last = self.STANDING if which == 'standing' else self.FRESH
        return '%s-%s' % (first, last), self.inside('calls'), ['-t', 'ui']

    def balancers(self, binary, nodes, secret, config):
        """With the file that is shipped for them, and their own addresses."""
        made = []
        listed = 'nodes = [%s]' % ', '.join('"sip:%s"' % node for node in nodes)
        for place in ('left', 'right'):
            text = shipped(self.SHIPPED, 'strowger.toml', pairs=[
                ('nodes = ["sip:192.0.2.21:5060", "sip:192.0.2.22:5060"]', listed), ('data_dir = ', '# data_dir = '),
                *self.addresses(place)])
            balancer = servers.Balancer(binary, nodes, self.o.workers, self.o.algorithm, text + config, ip=self.OWN[place],
                                        secret=secret, prefix=self.inside(place), whole=True)
            balancer.place, balancer.admin = place, self.ADMIN
            made.append(balancer)
        return made

    def begin(self, scene):
        pass

    def watching(self, what):
        """Runs until the end in a thread."""
        thread = threading.Thread(target=what, daemon=True)
        thread.start()
        self.threads.append(thread)

    def end(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        for place in self.NAMES:
            subprocess.run(['ip', 'netns', 'del', self.name(place)], stderr=subprocess.DEVNULL)


class Active(Namespaces):
    """Both balancers have the address on loopback; whoever sends to it has two equal routes: the files of deploy/anycast, but
    for the routing daemon, which is stood in for here: every 200 ms each balancer is asked, and its routes go when it does
    not answer."""

    service, SHIPPED = '10.65.0.1', 'anycast'
    # From these each asks the nodes; they lead to the other one when it is gone, so both listen on both.
    ASKING = {'left': '10.65.0.11', 'right': '10.65.0.12'}

    def addresses(self, place):
        other, = [p for p in self.ASKING if p != place]
        return [('192.0.2.10', self.service), ('192.0.2.11', self.ASKING[place]), ('192.0.2.12', self.ASKING[other])]

    def sources(self):
        return [self.service, *self.ASKING.values()]

    def build(self):
        super().build()
        for place in ('left', 'right'):
            self.script(place, shipped(self.SHIPPED, 'addresses.sh', pairs=self.addresses('left')))
        self.routes = None
        self.route(['left', 'right'])

    def script(self, place, text, *arguments):
        subprocess.run(self.inside(place) + ['sh', '-s', *arguments], input=text, text=True, check=True)

    def route(self, places):
        if places == self.routes or not places:
            return
        text = shipped(self.SHIPPED, 'routes.sh', pairs=[
            ('198.51.100.1', self.OWN['left']), ('198.51.100.2', self.OWN['right']), *self.addresses('left')])
        for place in ('calls', 'nodes'):
            self.script(place, text, *(('1' if place == 'left' else '2') for place in places))
        self.routes = list(places)

    def begin(self, scene):
        def watch():
            while self.running:
                self.route([b.place for b in scene.balancers if b.process.running() and self.ready(b)])
                time.sleep(0.2)
        self.watching(watch)

    def watch(self, scene):
        """Until nobody sends to who is gone."""
        begun = time.monotonic()
        net.poll('its route is gone', 10, lambda: len(self.routes) == 1)
        scene.say('its route was gone %.2f s after that' % (time.monotonic() - begun))

    def ready(self, balancer):
        """A connection that is refused at once, or answers."""
        done = subprocess.run(self.inside(balancer.place) + [
            sys.executable, '-c', 'import socket; socket.create_connection(("127.0.0.1", 8080), 0.2)'],
            stderr=subprocess.DEVNULL)
        return done.returncode == 0


class Bird(Active):
    """The same with the routing daemon, and all files of deploy/anycast but routes.sh: BIRD at each balancer announces the
    addresses by BGP as long as announce.sh says so, to two routers, which are the callers and the nodes themselves."""

    ROUTERS = ('calls', 'nodes')

    @staticmethod
    def missing():
        if not Bird.binary('bird') or not Bird.binary('birdc'):
            return 'no BIRD (apt-get install bird2)'
        return Namespaces.missing()

    @staticmethod
    def binary(name):
        return shutil.which(name, path=os.environ.get('PATH', '') + ':/usr/sbin')

    def build(self):
        super().build()
        self.dir, self.daemons = tempfile.mkdtemp(prefix='strowger-bird-'), []
        for place in self.ROUTERS:
            self.sysctl(place, 'net.ipv4.fib_multipath_hash_policy=1')

    def route(self, places):
        """Nobody sets them by hand."""

    def announcing(self, place):
        """bird.conf of a balancer's machine; the second router has the same peering as the first."""
        text = shipped(self.SHIPPED, 'bird.conf', pairs=[
            ('198.51.100.254', self.OWN['calls']), ('198.51.100.1', self.OWN[place]), *self.addresses(place)])
        first = text[text.index('protocol bgp upstream {'):]
        return text + first.replace('upstream', 'second').replace(self.OWN['calls'], self.OWN['nodes'])

    def routing(self, place):
        return shipped(self.SHIPPED, 'bird-router.conf', pairs=[
            ('198.51.100.254', self.OWN[place]), ('198.51.100.1', self.OWN['left']), ('198.51.100.2', self.OWN['right']),
            *self.addresses('left')])

    def begin(self, scene):
        for place in self.ROUTERS:
            self.daemon(place, self.routing(place))
        for balancer in scene.balancers:
            place = balancer.place
            socket = self.daemon(place, self.announcing(place))
            text = shipped(self.SHIPPED, 'announce.sh', pairs=[
                ('/usr/local/bin/strowger', balancer.binary), ('birdc ', '%s -s %s ' % (self.binary('birdc'), socket))])
            path = os.path.join(self.dir, place + '.sh')
            with open(path, 'w') as f:
                f.write(text)
            self.daemons.append(servers.Process(self.inside(place) + ['sh', path]))
        self.reach('left', 'right')

    def daemon(self, place, text):
        """BIRD there; the name of its socket."""
        path = os.path.join(self.dir, place)
        with open(path + '.conf', 'w') as f:
            f.write(text)
        self.daemons.append(servers.Process(self.inside(place) + [
            self.binary('bird'), '-f', '-c', path + '.conf', '-s', path + '.ctl', '-P', path + '.pid']))
        return path + '.ctl'

    def ways(self, router, address=None):
        """The balancers that it sends to; of both for the common address, and otherwise the one for an own address."""
        done = subprocess.run(['ip', '-n', self.name(router), 'route', 'show', (address or self.service) + '/32'],
                              stdout=subprocess.PIPE, text=True)
        return [place for place in ('left', 'right') if ' via %s ' % self.OWN[place] in done.stdout.replace('\n', ' ')]

    def reach(self, *places):
        """Until both routers have the routes that there are while these balancers answer; seconds that it took."""
        begun = time.monotonic()
        own = {self.ASKING[p]: [p] if p in places else list(places) for p in ('left', 'right')}
        wanted = [list(places), *own.values()]
        found = lambda: [[self.ways(r, a) for a in (None, *own)] for r in self.ROUTERS]
        try:
            net.poll('the routers send to %s' % ' and '.join(places), 20, lambda: found() == [wanted] * len(self.ROUTERS))
        except AssertionError as error:
            raise AssertionError('%s: %s\n%s' % (error, found(), '\n'.join(d.log(5) for d in self.daemons)))
        return time.monotonic() - begun

    def watch(self, scene):
        left = [b.place for b in scene.balancers if b.process.running()]
        scene.say('its routes were gone %.2f s after that' % self.reach(*left))

    def end(self):
        for daemon in reversed(getattr(self, 'daemons', [])):
            daemon.stop(1)
        super().end()
        shutil.rmtree(getattr(self, 'dir', ''), ignore_errors=True)


class Standby(Namespaces):
    """One balancer at a time has the address, by keepalived; both configurations of deploy/keepalived."""

    service, SHIPPED = '10.64.0.10', 'keepalived'

    @staticmethod
    def missing():
        if not Standby.binary():
            return 'no keepalived (apt-get install keepalived)'
        return Namespaces.missing()

    @staticmethod
    def binary():
        return shutil.which('keepalived', path=os.environ.get('PATH', '') + ':/usr/sbin')

    def build(self):
        super().build()
        self.dir = tempfile.mkdtemp(prefix='strowger-keepalived-')
        self.keepers = {}
        for place in ('left', 'right'):
            self.sysctl(place, 'net.ipv4.ip_nonlocal_bind=1')

    def addresses(self, place):
        return [('192.0.2.10', self.service), ('192.0.2.11', self.OWN[place])]

    def begin(self, scene):
        for balancer, priority in zip(scene.balancers, (100, 90)):
            place = balancer.place
            text = shipped(self.SHIPPED, 'keepalived.conf', pairs=[
                ('"/usr/local/bin/strowger ', '"%s ' % balancer.binary), ('192.0.2.10/24', self.service + '/16'),
                ('priority 100', 'priority %d' % priority)] + (
                    [] if anybody_may_run(balancer.binary) else [('script_user nobody', 'script_user root')]))
            path = os.path.join(self.dir, place + '.conf')
            with open(path, 'w') as f:
                f.write(text)
            os.chmod(path, 0o644)
            pid = os.path.join(self.dir, place)
            self.keepers[place] = servers.Process(self.inside(place) + [
                self.binary(), '--vrrp', '-n', '-l', '-f', path, '-p', pid + '.pid', '-r', pid + '-vrrp.pid'])
        try:
            net.poll('one has the address', 15, lambda: len(self.holders()) == 1)
        except AssertionError:
            raise AssertionError('keepalived gave the address to nobody:\n' + '\n'.join(
                k.log(15) for k in self.keepers.values()))

    def holders(self):
        """The places that have the address."""
        def has(place):
            done = subprocess.run(['ip', '-n', self.name(place), '-4', '-o', 'address', 'show', 'dev', 'eth0'],
                                  stdout=subprocess.PIPE, text=True)
            return ' %s/' % self.service in done.stdout
        return [place for place in ('left', 'right') if has(place)]

    def master(self, scene):
        place, = self.holders()
        return next(b for b in scene.balancers if b.place == place)

    def watch(self, scene):
        """Until the other has the address."""
        begun = time.monotonic()
        alive = [b.place for b in scene.balancers if b.process.running()]
        net.poll('the other has the address', 15, lambda: alive == [p for p in self.holders() if p in alive])
        scene.say('the other has the address %.2f s after that' % (time.monotonic() - begun))

    def cut(self, balancer):
        """Power off: nothing of it is heard any more."""
        ip('-n', self.name('hub'), 'link', 'set', balancer.place, 'down')
        balancer.kill()
        self.keepers[balancer.place].kill()

    def split(self, apart):
        """The two machines hear everybody but each other; or all again."""
        for place in ('left', 'right'):
            ip('-n', self.name('hub'), 'link', 'set', 'dev', place, 'type', 'bridge_slave', 'isolated', 'on' if apart else 'off')

    def end(self):
        for keeper in getattr(self, 'keepers', {}).values():
            keeper.stop()
        super().end()
        shutil.rmtree(getattr(self, 'dir', ''), ignore_errors=True)


def anybody_may_run(path):
    """Not what lies below somebody's own folder."""
    while os.stat(path).st_mode & 0o001:
        if path == '/':
            return True
        path = os.path.dirname(path)
    return False
