#!/usr/bin/env python3
"""How long a server with a million bindings on disk takes from its start to its first right answer.

    verify/bench/restart.py --bin target/release/strowger --program target/release/examples/refresh

The example of shell/store makes two data directories: as an orderly end leaves them, and as a crash does with one record
in the log for each binding. On a copy of each the server is started, asked over UDP for the binding of one user after
the other (a REGISTER without Contact) until the first right answer comes, and then for many more: each must be there,
and the server must count all of them. Then it is killed with SIGKILL and started again on what that leaves, and stopped
with SIGTERM and started once more. `empty` is a server without bindings. Page caches are warm. Authentication is off,
the server has its usual workers and steering.
"""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import records  # noqa: E402  (after the path is set)
from harness import net  # noqa: E402

FIELDS = (('answer_s', 'first right answer, s', '%.2f'), ('loaded_s', 'store loaded, s', '%.2f'),
          ('processor_s', 'processor time until then, s', '%.2f'), ('peak_mb', 'peak memory, MB', '%.0f'),
          ('resident_mb', 'memory after it, MB', '%.0f'))
NAMES = {'stop': 'after an end', 'crash': 'after a crash, a record in the log for each binding',
         'killed': 'after SIGKILL following that', 'stopped': 'after SIGTERM following that', 'empty': 'without bindings'}


class Server:
    """A server that is being started on `data`, and somebody who asks it."""

    def __init__(self, binary, data):
        self.ip, self.log = net.fresh_ip(), os.path.join(os.path.dirname(data), 'log')
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((net.fresh_ip(), 0))
        self.begun, wall = time.monotonic(), time.time()
        with open(self.log, 'w') as log:
            self.process = subprocess.Popen(
                [binary, 'serve', '--listen', 'udp:%s:5060' % self.ip, '--domain', 'example.com', '--data-dir', data,
                 '--admin', '%s:8080' % self.ip, '--auth', 'off'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wall = wall

    def fetch(self, user, wait):
        """The bindings of this user as the server tells them; None without an answer."""
        call_id, address = net.unique('restart'), '%s:%d' % self.socket.getsockname()
        self.socket.sendto('\r\n'.join([
            'REGISTER sip:example.com SIP/2.0', 'Via: SIP/2.0/UDP %s;branch=%s' % (address, net.unique('z9hG4bK')),
            'Max-Forwards: 70', 'From: <sip:%s@example.com>;tag=a' % user, 'To: <sip:%s@example.com>' % user,
            'Call-ID: ' + call_id, 'CSeq: 1 REGISTER', 'Content-Length: 0', '', '']).encode(), (self.ip, 5060))
        end = time.monotonic() + wait
        while time.monotonic() < end:
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                reply = net.Reply(self.socket.recv(65536))
            except OSError:
                return None
            if reply.get('Call-ID') == call_id:
                assert reply.status == 200, 'the server said: ' + reply.start
                return reply.all('Contact')
        return None

    def first(self, users):
        """Asks until there is an answer, which must be right."""
        while True:
            assert self.process.poll() is None and time.monotonic() - self.begun < 60, open(self.log).read()
            user = 'user%06d' % random.randrange(max(users, 1))
            contacts = self.fetch(user, 0.05)
            if contacts is not None:
                took = time.monotonic() - self.begun
                self.right(user, contacts, users)
                return took

    def right(self, user, contacts, users):
        number = int(user[4:])
        address = '10.%d.%d.%d' % (number >> 16 & 255, number >> 8 & 255, number & 255)
        wanted = '<sip:%s@%s:5060;ob>' % (user, address)
        assert bool(contacts) == bool(users) and all(wanted in c for c in contacts), (user, contacts)

    def figures(self, users):
        """What the start took."""
        took = self.first(users)
        with open('/proc/%d/stat' % self.process.pid) as f:
            ticks = f.read().rsplit(') ', 1)[1].split()[11:13]
        with open('/proc/%d/status' % self.process.pid) as f:
            memory = dict(re.findall(r'(VmHWM|VmRSS):\s+(\d+)', f.read()))
        with open(self.log) as f:
            loaded = re.search(r'(\S+)Z? +INFO.*store loaded', f.read())
        for _ in range(2000 if users else 0):
            user = 'user%06d' % random.randrange(users)
            self.right(user, self.fetch(user, 5) or [], users)
        with urllib.request.urlopen('http://%s:8080/metrics' % self.ip, timeout=20) as page:
            count = re.search(r'(?m)^strowger_bindings (\d+)', page.read().decode())
        assert count and int(count.group(1)) == users, 'of %d bindings there are %s' % (users, count and count.group(1))
        return dict(answer_s=took, loaded_s=since(loaded.group(1), self.wall),
                    processor_s=sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK'), peak_mb=int(memory['VmHWM']) / 1024,
                    resident_mb=int(memory['VmRSS']) / 1024)

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait()
        self.socket.close()


def since(stamp, wall):
    """Seconds from `wall` to a log line's time."""
    import datetime
    at = datetime.datetime.fromisoformat(stamp.rstrip('Z')).replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() - wall


def start(binary, data, users, number):
    server = Server(binary, data)
    try:
        return server.figures(users)
    finally:
        server.end(number)


def once(o, directories, scratch):
    """The figures of each kind of start."""
    found, data = {}, os.path.join(scratch, 'data')
    for kind, source in directories.items():
        shutil.copytree(source, data)
        subprocess.run(['sync'], check=True)
        found[kind] = start(o.bin, data, o.users, signal.SIGKILL)
        if kind == 'crash':
            found['killed'] = start(o.bin, data, o.users, signal.SIGTERM)
            found['stopped'] = start(o.bin, data, o.users, signal.SIGKILL)
        shutil.rmtree(data)
    os.mkdir(data, mode=0o700)
    start(o.bin, data, 0, signal.SIGTERM)
    found['empty'] = start(o.bin, data, 0, signal.SIGKILL)
    shutil.rmtree(data)
    print(' '.join('%s %.2f' % (kind, found[kind]['answer_s']) for kind in found), flush=True)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger')
    p.add_argument('--program', default='target/release/examples/refresh')
    p.add_argument('--users', type=int, default=1000000)
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--directories', help='where the directories are, or are made and left')
    p.add_argument('--record', help='a folder for table and figures')
    o = p.parse_args()
    for path, mend in ((o.bin, '-p strowger'), (o.program, '-p store --example refresh')):
        if not os.path.exists(path):
            print('no %s: cargo build --release %s' % (path, mend))
            return 2
    with tempfile.TemporaryDirectory(dir=o.directories) as scratch:
        base = o.directories or scratch
        made = [os.path.join(base, name) for name in sorted(os.listdir(base)) if name.startswith('strowger-refresh-')]
        if not made:
            batch = max(o.users // 100, 1)
            subprocess.run([o.program, str(o.users), str(batch), '100', base, 'keep'], check=True)
            made = [os.path.join(base, n) for n in sorted(os.listdir(base)) if n.startswith('strowger-refresh-')]
        directories = dict(('crash' if name.endswith('.crash') else 'stop', name) for name in made)
        runs = [once(o, directories, scratch) for _ in range(o.reps)]
    table = ['| %d bindings | %s |' % (o.users, ' | '.join(f[1] for f in FIELDS)), '|---|%s' % ('---|' * len(FIELDS))]
    for kind, name in NAMES.items():
        figures = (records.spread([run[kind] for run in runs], key, form) for key, _, form in FIELDS)
        table.append('| %s | %s |' % (name, ' | '.join(figures)))
    print('\n'.join(table))
    if o.record:
        records.write(o.record, 'restart', 'Starts with %d bindings' % o.users, o.reps, table, runs)
    return 0


if __name__ == '__main__':
    sys.exit(main())
