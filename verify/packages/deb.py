#!/usr/bin/env python3
"""The Debian package in a bare Debian: installed, a user, a call, upgraded, removed.

    verify/packages/deb.py --bin FILE [--root DIR]

A minimal system is made in DIR [default: .cache/package-root] and used again by a second run. FILE is packed twice, the
second time as a later version. The server of the package listens in a network of its own. Needs root.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'verify'))
from harness import net, servers  # noqa: E402

PATH = {'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'LC_ALL': 'C.UTF-8',
        'DEBIAN_FRONTEND': 'noninteractive'}
CONFIGURATION = '/etc/strowger/strowger.toml'
DATA = '/var/lib/strowger'
# An operator has a call within this: a user who does it by hand spends most of it at the keyboard.
LIMIT = 120


def say(*words):
    print('deb:', *words, flush=True)


def must(condition, *words):
    if not condition:
        raise SystemExit('deb: FAILED: ' + ' '.join(map(str, words)))


class Machine:
    """The bare system. Its commands run as root within it."""

    def __init__(self, root):
        self.root = root

    def path(self, inside):
        return self.root + inside

    def run(self, *command, check=True, text=None):
        done = subprocess.run(['chroot', self.root, *command], env=PATH, input=text, capture_output=True, text=True)
        must(not check or done.returncode == 0, command, 'ended with', done.returncode, done.stdout[-2000:],
             done.stderr[-2000:])
        return done.stdout + done.stderr

    def owner(self, inside):
        return self.run('stat', '-c', '%U:%G %a', inside).strip()

    def install(self, package):
        name = os.path.basename(package)
        subprocess.run(['cp', package, self.path('/root/' + name)], check=True)
        self.run('apt-get', 'install', '-y', '-qq', '--no-install-recommends', '/root/' + name)


class Served:
    """The server of the package, started as its unit does: as the user of the service, ready when it says so."""

    def __init__(self, machine):
        self.process = servers.Process([
            'chroot', machine.root, 'setpriv', '--reuid=strowger', '--regid=strowger', '--clear-groups',
            '--inh-caps=-all', '--bounding-set=-all', '/usr/bin/strowger', 'serve', '--config', CONFIGURATION],
            env=PATH)
        net.poll('the server is ready', 30, lambda: self.process.said('ready') or not self.process.running())
        must(self.process.running(), 'the server ended:', self.process.log())

    def stop(self):
        self.process.terminate()
        must(self.process.proc.wait(50) == 0, 'the server ended with', self.process.proc.returncode, self.process.log())


def one_call():
    """alice and bob register with their passwords; alice calls bob, who is busy, so that the call ends by itself."""
    server = ('127.0.0.1', 5060)
    alice = net.Client(server, 'alice', 'secret1', 'example.com')
    bob = net.Client(server, 'bob', 'secret2', 'example.com')
    wrong = net.Client(server, 'alice', 'wrong', 'example.com')
    try:
        must(wrong.register('sip:alice@%s:%d' % (wrong.ip, wrong.port)).status in (401, 403), 'a wrong password was taken')
        for phone in (alice, bob):
            answer = phone.register('sip:%s@%s:%d' % (phone.user, phone.ip, phone.port))
            must(answer and answer.status == 200, phone.user, 'could not register:', answer and answer.start)
        got = []

        def ring():
            bob.sock.settimeout(20)
            while True:
                request = bob.sock.recv(65536)
                if request.startswith(b'INVITE '):
                    break
            head = net.Reply(request)
            same = ['%s: %s' % (n, v) for n, v in head.headers if n.lower() in ('via', 'from', 'call-id', 'cseq')]
            answer = ['SIP/2.0 486 Busy Here', *same, 'To: %s;tag=b' % head.get('To'), 'Content-Length: 0', '', '']
            bob.sock.sendto('\r\n'.join(answer).encode(), server)
            got.append(head.start)

        thread = threading.Thread(target=ring, daemon=True)
        thread.start()
        answer = alice.ask('INVITE', 'sip:bob@example.com', lines=['Contact: <sip:alice@%s:%d>' % (alice.ip, alice.port)])
        thread.join(20)
        must(answer and answer.status == 486 and got, 'the call ended with', answer and answer.start)
    finally:
        for phone in (alice, bob, wrong):
            phone.close()


def make(program, folder, version=()):
    # Symbols of a debug build take minutes to compress, and nothing here looks at them.
    done = subprocess.run([os.path.join(ROOT, 'deploy/deb.sh'), program, folder, *version], capture_output=True, text=True,
                          env={**os.environ, 'DEB_BUILD_OPTIONS': 'noautodbgsym'})
    must(done.returncode == 0, done.stderr)
    return next(line for line in done.stdout.split() if os.path.basename(line).startswith('strowger_'))


def without_network(o):
    """This program once more, in a network of its own: the package's server has the ports of all addresses."""
    return subprocess.run(['unshare', '--net', sys.executable, os.path.abspath(__file__), '--bin', o.bin, '--root', o.root,
                           '--served'], check=False).returncode


def served(machine):
    """A user, a call, and a restart that keeps both users."""
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    server = Served(machine)
    try:
        for user, password in (('alice', 'secret1'), ('bob', 'secret2')):
            machine.run('strowger', 'user', 'add', user + '@example.com', text=password + '\n')
        must('alice@example.com' in machine.run('strowger', 'user', 'list'), 'the user is not listed')
        status = machine.run('strowger', 'ctl', 'status')
        must('ready' in status, 'ctl status says', status)
        time.sleep(1)  # A running server knows new users within a second.
        one_call()
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', required=True)
    parser.add_argument('--root', default=os.path.join(ROOT, '.cache', 'package-root'))
    parser.add_argument('--strict', action='store_true', help='what cannot be done here is a failure')
    parser.add_argument('--served', action='store_true', help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.bin, o.root = os.path.abspath(o.bin), os.path.abspath(o.root)
    machine = Machine(o.root)
    if o.served:
        served(machine)
        return
    if os.geteuid() != 0:
        must(not o.strict, 'run it as root: it installs packages in a system of its own')
        say('left out: it needs root, to install packages in a system of its own')
        return
    if 'DEB_MOUNTS' not in os.environ:
        # What is mounted in there goes with this process.
        os.environ['DEB_MOUNTS'] = '1'
        os.execvp('unshare', ['unshare', '--mount', sys.executable, *sys.argv])
    subprocess.run([os.path.join(ROOT, 'verify/debian_root.sh'), o.root], check=True)
    subprocess.run(['mount', '-t', 'proc', 'proc', machine.path('/proc')], check=True)
    machine.run('apt-get', 'purge', '-y', '-qq', 'strowger', check=False)
    subprocess.run(['rm', '-rf', machine.path(DATA), machine.path('/etc/strowger')], check=True)
    with open(machine.path('/usr/sbin/policy-rc.d'), 'w') as policy:
        policy.write('#!/bin/sh\nexit 101\n')
    os.chmod(machine.path('/usr/sbin/policy-rc.d'), 0o755)
    machine.run('apt-get', 'update', '-qq')
    with tempfile.TemporaryDirectory() as folder:
        first = make(o.bin, folder)
        said = subprocess.run(['lintian', '--fail-on', 'error', '--tag-display-limit', '0', first], capture_output=True, text=True)
        must(said.returncode == 0, 'lintian:', said.stdout, said.stderr)
        say('made', os.path.basename(first), os.path.getsize(first) >> 20, 'MiB')
        begun = time.monotonic()
        machine.install(first)
        must(machine.owner(DATA) == 'strowger:strowger 700', DATA, 'is', machine.owner(DATA))
        machine.run('strowger', 'check', CONFIGURATION)
        for page in ('strowger', 'strowger-serve', 'strowger-user-add'):
            must(os.path.exists(machine.path('/usr/share/man/man1/%s.1.gz' % page)), 'no manual page', page)
        for script in ('bash-completion/completions/strowger', 'zsh/vendor-completions/_strowger',
                       'fish/vendor_completions.d/strowger.fish'):
            must(os.path.getsize(machine.path('/usr/share/' + script)) > 1000, 'no completions in', script)
        must(without_network(o) == 0, 'no call with the package')
        took = time.monotonic() - begun
        must(took < LIMIT, 'from apt install to a call took', round(took), 's')
        say('from apt install to a call: %.0f s' % took)
        machine.run('systemd-analyze', 'verify', '/lib/systemd/system/strowger.service')
        machine.run('strowger', 'backup', '/root/copy.tar.gz')
        machine.run('strowger', 'restore', '/root/copy.tar.gz', '--data-dir', '/root/restored')
        must('bob@example.com' in machine.run('strowger', 'user', 'list', '--data-dir', '/root/restored'), 'the copy has no bob')
        machine.run('rm', '-r', '/root/copy.tar.gz', '/root/restored')
        # Root copies as the user of the service: a link to a file that this user cannot read is not followed.
        secret, aside = DATA + '/secret', DATA + '/secret.aside'
        machine.run('mv', secret, aside)
        machine.run('ln', '-s', '/etc/shadow', secret)
        said = machine.run('strowger', 'backup', '/root/copy.tar.gz', check=False)
        must('Permission denied' in said, 'a backup with a link to /etc/shadow said', said)
        must(not os.path.exists(machine.path('/root/copy.tar.gz')), 'there is a copy of /etc/shadow')
        machine.run('mv', aside, secret)
        # An upgrade keeps what the operator changed and what the server stored.
        with open(machine.path(CONFIGURATION), 'a') as out:
            out.write('domains = ["example.com"]\n')
        machine.install(make(o.bin, folder, ['99.0']))
        must('99.0' in machine.run('dpkg-query', '-W', 'strowger'), 'the upgrade is not there')
        with open(machine.path(CONFIGURATION)) as file:
            must(file.read().endswith('domains = ["example.com"]\n'), 'the upgrade changed', CONFIGURATION)
        must('bob@example.com' in machine.run('strowger', 'user', 'list'), 'the upgrade lost a user')
        must(without_network(o) == 0, 'no call after the upgrade')
        for how in ('remove', 'purge'):
            machine.run('apt-get', how, '-y', '-qq', 'strowger')
            must(os.listdir(machine.path(DATA)), how, 'removed', DATA)
            must(not os.path.exists(machine.path('/usr/bin/strowger')), how, 'left the program')
        must(not os.path.exists(machine.path(CONFIGURATION)), 'purge left', CONFIGURATION)
    say('installed, called, upgraded, removed; data kept')


if __name__ == '__main__':
    main()
