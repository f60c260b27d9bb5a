#!/usr/bin/env python3
"""What an idle connection with its registration costs the server in memory of its own: Strowger and Kamailio.

    verify/bench/connections.py --bin target/release/strowger [--transports tcp,tls,wss] [--connections 15000] [--reps 3]
                                [--record lab/record]

Phones connect, 200 at a time, register once and say no more. The figure is the growth of the server's memory (Pss of all
its processes), over the connections: from the first hundred on ("from 100"), which includes what a server takes once
for its buffers, and from a fifth of them on ("each more"), which does not. What the kernel holds for both ends of a
connection is not in it. Over TLS the handshakes are full ones (TLS 1.3, P-256, ECDSA certificates).
Kamailio has no figure for WSS here. Each phone needs a descriptor here and one in the server (ulimit -n).
"""
import argparse
import base64
import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import records  # noqa: E402  (after the path is set)
from harness import net, servers  # noqa: E402

REGISTER = ('REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/{via} {me};branch=z9hG4bK{i}\r\nMax-Forwards: 70\r\n'
            'From: <sip:{user}@{domain}>;tag={i}\r\nTo: <sip:{user}@{domain}>\r\nCall-ID: {i}@{me}\r\nCSeq: 1 REGISTER\r\n'
            'Contact: <sip:{user}@{me};transport={transport}>\r\nExpires: 3600\r\nContent-Length: 0\r\n\r\n')
AT_A_TIME = 200
DOMAIN = 'bench.test'
KAMAILIO = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'lab', 'kamailio.cfg')
FIRST = 100


def user(i):
    return 'b%d' % (1000000 + i)


class Phones:
    """Idle connections from as many addresses as there are hundreds of them: servers limit those of one."""

    def __init__(self, address, transport='tcp', roots=None):
        self.address, self.transport, self.open, self.net = address, transport, [], net.fresh_ip().rsplit('.', 1)[0]
        self.context = ssl.create_default_context(cafile=roots) if roots else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for phone in self.open:
            phone.close()

    def up_to(self, count):
        """Opens more until there are so many, all of them registered."""
        while len(self.open) < count:
            first = len(self.open)
            new = [self.register(i) for i in range(first, min(first + AT_A_TIME, count))]
            for phone in new:
                phone.settimeout(20)
                answer = phone.recv(4096)
                if b'SIP/2.0 200' not in answer[:16]:
                    raise AssertionError('the server answered %r' % answer[:200])
            self.open += new

    def register(self, i):
        phone = socket.socket()
        phone.bind(('%s.%d' % (self.net, 10 + i % 200), 0))
        phone.connect(self.address)
        me = '%s:%d' % phone.getsockname()
        if self.context:
            phone = self.context.wrap_socket(phone, server_hostname=self.address[0])
        if self.transport == 'wss':
            upgrade(phone, self.address)
        request = REGISTER.format(domain=DOMAIN, me=me, user=user(i), i=i, via=self.transport.upper(),
                                  transport=self.transport.replace('wss', 'ws')).encode()
        phone.sendall(framed(request) if self.transport == 'wss' else request)
        return phone


def upgrade(phone, address):
    """The handshake of WebSocket (RFC 6455 section 4.1, RFC 7118 section 4)."""
    key = base64.b64encode(os.urandom(16)).decode()
    phone.sendall(('GET / HTTP/1.1\r\nHost: %s:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n'
                   'Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n' % (*address, key)).encode())
    answer = phone.recv(4096)
    if not answer.startswith(b'HTTP/1.1 101'):
        raise AssertionError('the server answered %r' % answer[:200])


def framed(message):
    """One masked frame of text (RFC 6455 section 5.2)."""
    mask = os.urandom(4)
    head = bytes([0x81, 0xfe]) + len(message).to_bytes(2, 'big') + mask
    return head + bytes(b ^ mask[i % 4] for i, b in enumerate(message))


def once(o, name, transport):
    secure = transport != 'tcp'
    server = servers.Strowger(o.bin, DOMAIN, 1, False, secure=secure) if name == 'strowger' else servers.Kamailio(
        KAMAILIO, ['PROXY', 'USERS 0', 'WITH_TCP', 'CONNECTIONS %d' % (o.connections + 100), 'CONTROL'],
        memory=4096, extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], secure=secure)
    memory = {}
    with server, Phones(server.place(transport), transport, secure and server.authority.roots) as phones:
        for count in (FIRST, o.connections // 5, o.connections):
            phones.up_to(count)
            time.sleep(2)
            memory[count] = used_by_kamailio(server) if name == 'kamailio' else \
                1024 * records.memory_kb(server.process.pids())
    last, fifth = o.connections, o.connections // 5
    return dict(connections=last, from_first=(memory[last] - memory[FIRST]) / (last - FIRST),
                each=(memory[last] - memory[fifth]) / (last - fifth))


def used_by_kamailio(server):
    """Its shared memory is touched at start, so the system cannot say: what is in use, by its own count. The private
    memory of its processes stays out, in its favour."""
    done = subprocess.run(['kamcmd', '-s', 'unix:' + os.path.join(server.dir, 'kamailio_ctl'), 'core.shmmem'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    used = re.search(r'real_used: (\d+)', done.stdout)
    if not used:
        raise AssertionError('kamcmd core.shmmem: ' + done.stdout)
    return int(used.group(1))


FIELDS = (('connections', 'connections', '%d'), ('from_first', 'bytes each, from 100', '%.0f'), ('each', 'bytes each more', '%.0f'))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='strowger,kamailio', type=lambda s: s.split(','))
    p.add_argument('--transports', default='tcp', type=lambda s: s.split(','), help='tcp, tls, wss [default: tcp]')
    p.add_argument('--connections', type=int, default=15000)
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if limit < o.connections + 200:
        print('%d connections need %d descriptors: ulimit -n allows %d' % (o.connections, o.connections + 200, limit))
        return 2
    results = {}
    for rep in range(o.reps):
        for name, transport in ((n, t) for t in o.transports for n in o.servers if (n, t) != ('kamailio', 'wss')):
            if name == 'kamailio' and not (servers.Kamailio.binary() and shutil.which('kamcmd')):
                print('left out: kamailio (apt-get install kamailio)')
                continue
            found = once(o, name, transport)
            results.setdefault((name, transport), []).append(found)
            print('%d/%d %-9s %s %s' % (rep + 1, o.reps, name, transport, ', '.join('%s %.0f' % f for f in found.items())), flush=True)
    table = ['| server | transport | %s |' % ' | '.join(f[1] for f in FIELDS), '|---|---|%s' % ('---|' * len(FIELDS))]
    table += ['| %s | %s | %s |' % (*name, ' | '.join(records.spread(runs, key, form) for key, _, form in FIELDS))
              for name, runs in results.items()]
    print('\n' + '\n'.join(table))
    if o.record:
        records.write(o.record, 'connections', 'Memory of idle connections', o.reps, table,
                      [dict(server=n[0], transport=n[1], **r) for n, runs in results.items() for r in runs])
    return 0


if __name__ == '__main__':
    sys.exit(main())
