#!/usr/bin/env python3
"""What users notice while strangers send large INVITEs to a user with ten ringing phones.

    verify/bench/room.py --bin target/release/strowger [--megabytes 500] [--seconds 60] [--memory 512]

The server may use --memory MiB (`limits.memory_mib`). Alice calls carol, whose phone answers at once. Meanwhile strangers at
eight addresses send --megabytes of INVITEs of 60 kB in --seconds: first to a socket that drops them, so that the machine
has the same work to do, then to the server. It prints the 99th percentile of her set-up times (INVITE with credentials to 200)
of both, what the server answered to strangers, and its memory. It fails if one of her calls fails, if the 99th percentile
grows by more than --worse, or if the server's memory passes --memory.
"""
import argparse
import hashlib
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

DOMAIN, BODY = 'bench.test', b'x' * 60000
BASE = '127.77.%d.' % (os.getpid() % 250)


class Phone:
    """A socket with a name, that sends requests, and answers INVITEs or rings."""

    def __init__(self, ip, server, name, answer=False):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((ip, 0))
        self.sock.settimeout(5)
        self.server, self.name, self.answer = server, name, answer
        self.at = '%s:%d' % self.sock.getsockname()
        self.count = 0

    def request(self, method, to, host=DOMAIN, lines='', body=b'', cseq=1):
        self.count += 1
        target = 'sip:' + DOMAIN if method == 'REGISTER' else to
        return ('%s %s SIP/2.0\r\nVia: SIP/2.0/UDP %s;rport;branch=z9hG4bK%s%d\r\nMax-Forwards: 70\r\n'
                'From: <sip:%s@%s>;tag=f%d\r\nTo: <%s>\r\nCall-ID: %s-%d\r\nCSeq: %d %s\r\n'
                'Contact: <sip:%s@%s>\r\n%sContent-Length: %d\r\n\r\n'
                % (method, target, self.at, self.name, self.count, self.name, host, self.count, to, self.at, self.count,
                   cseq, method, self.name, self.at, lines, len(body))).encode() + body

    def send(self, data):
        self.sock.sendto(data, self.server)

    def final(self):
        while True:
            text = self.sock.recv(65535).decode(errors='replace')
            if text.startswith('SIP/2.0') and int(text[8:11]) >= 200:
                return int(text[8:11]), text

    def ask(self, method, to, password, lines=''):
        """A request with credentials: its status, and how long it took from the one with credentials on."""
        self.send(self.request(method, to, lines=lines))
        status, text = self.final()
        if status not in (401, 407):
            return status, 0.0
        if method == 'INVITE':
            self.ack(text, to)
        realm, nonce = (re.search('%s="([^"]*)"' % key, text).group(1) for key in ('realm', 'nonce'))
        uri = 'sip:' + DOMAIN if method == 'REGISTER' else to
        md5 = lambda text: hashlib.md5(text.encode()).hexdigest()
        digest = md5('%s:%s:00000001:c:auth:%s' % (md5('%s:%s:%s' % (self.name, realm, password)), nonce,
                                                   md5('%s:%s' % (method, uri))))
        line = '%s: Digest username="%s", realm="%s", nonce="%s", uri="%s", response="%s", qop=auth, nc=00000001, ' \
               'cnonce="c"\r\n' % ('Authorization' if status == 401 else 'Proxy-Authorization', self.name, realm, nonce, uri,
                                   digest)
        begun = time.perf_counter()
        self.send(self.request(method, to, lines=lines + line, cseq=2))
        status, text = self.final()
        took = time.perf_counter() - begun
        if method == 'INVITE' and status >= 300:
            self.ack(text, to)
        return status, took

    def ack(self, answer, to):
        keep = '\r\n'.join(l for l in answer.split('\r\n') if l.split(':')[0] in ('Via', 'From', 'To', 'Call-ID'))
        number = re.search(r'CSeq: (\d+)', answer).group(1)
        self.send(('ACK %s SIP/2.0\r\n%s\r\nCSeq: %s ACK\r\nContent-Length: 0\r\n\r\n' % (to, keep, number)).encode())

    def serve(self):
        """Answers every INVITE and BYE at once, or rings."""
        self.sock.settimeout(None)
        while True:
            text, source = self.sock.recvfrom(65535)
            text = text.split(b'\r\n\r\n', 1)[0].decode(errors='replace')
            if text.startswith(('INVITE', 'BYE')):
                keep = [l for l in text.split('\r\n')[1:]
                        if l.split(':')[0] in ('Via', 'From', 'Call-ID', 'CSeq', 'Record-Route')]
                to = re.search(r'\r\nTo: ([^\r]*)', text).group(1)
                tag = '' if 'tag=' in to else ';tag=b'
                self.sock.sendto(('SIP/2.0 %s\r\n%s\r\nTo: %s%s\r\nContact: <sip:%s@%s>\r\nContent-Length: 0\r\n\r\n'
                                  % ('200 OK' if self.answer else '180 Ringing', '\r\n'.join(keep), to, tag, self.name,
                                     self.at)).encode(), source)


def memory(pid):
    with open('/proc/%d/status' % pid) as status:
        return int(re.search(r'VmRSS:\s+(\d+)', status.read()).group(1)) * 1024


def percentile(times, part):
    """In milliseconds."""
    return sorted(times)[int(len(times) * part)] * 1000


def calls(alice, seconds):
    """Alice's calls for so long: their set-up times, and how many failed."""
    times, failed, end = [], 0, time.time() + seconds
    while time.time() < end:
        try:
            status, took = alice.ask('INVITE', 'sip:carol@' + DOMAIN, 'secret')
        except socket.timeout:
            status, took = 408, 5.0
        times.append(took)
        failed += status != 200
        time.sleep(0.02)
    return times, failed


def flood(stranger, count, seconds, fates):
    """A stranger's INVITEs, evenly spread. Puts the counts of the answers' status codes into `fates` at the end."""
    begun, seen = time.time(), {}
    stranger.sock.setblocking(False)
    for n in range(count):
        time.sleep(max(0.0, begun + seconds * n / count - time.time()))
        try:
            stranger.send(stranger.request('INVITE', 'sip:bob@' + DOMAIN, host='far.test', body=BODY))
        except BlockingIOError:
            seen['not sent'] = seen.get('not sent', 0) + 1
        try:
            while True:
                fate = stranger.sock.recv(65535)[8:11].decode()
                seen[fate] = seen.get(fate, 0) + 1
        except BlockingIOError:
            pass
    fates.put(seen)


def drop(sock):
    while True:
        sock.recv(65535)


def flooded(o, alice, target):
    """Alice's calls while eight strangers, processes of their own, flood `target`; and what they were answered."""
    each, fates = int(o.megabytes * 1e6 / len(BODY) / 8), multiprocessing.Queue()
    strangers = [Phone(BASE + str(n), target, 'mallory') for n in range(10, 18)]
    processes = [multiprocessing.Process(target=flood, args=(s, each, o.seconds, fates), daemon=True) for s in strangers]
    for process in processes:
        process.start()
    times, failed = calls(alice, o.seconds)
    total = {}
    for _ in processes:
        for fate, count in fates.get(timeout=30).items():
            total[fate] = total.get(fate, 0) + count
    for process in processes:
        process.join()
    for stranger in strangers:
        stranger.sock.close()
    return times, failed, total


def run(o, folder):
    at = (BASE + '1', 5060)
    config = os.path.join(folder, 'strowger.toml')
    with open(config, 'w') as file:
        file.write('domains = ["%s"]\nlisten = ["udp:%s:%d"]\ndata_dir = "%s"\nworkers = 1\n[proxy]\nmtu = 65535\n'
                   '[limits]\nmemory_mib = %d\n[admin]\nlisten = "%s:8080"\n'
                   % (DOMAIN, *at, folder, o.memory, at[0]))
    for user in ('alice', 'bob', 'carol'):
        subprocess.run([o.bin, 'user', 'add', '%s@%s' % (user, DOMAIN), '--data-dir', folder],
                       input=b'secret\n', check=True, stdout=subprocess.DEVNULL)
    server = subprocess.Popen([o.bin, 'serve', '--config', config], stderr=open(os.path.join(folder, 'log'), 'w'))
    try:
        time.sleep(3)
        alice, bob = Phone(BASE + '2', at, 'alice'), Phone(BASE + '3', at, 'bob')
        carol = Phone(BASE + '4', at, 'carol', answer=True)
        ten = ''.join('Contact: <sip:bob%d@%s>\r\n' % (n, bob.at) for n in range(9))
        for phone, lines in ((bob, ten), (carol, '')):
            status, _ = phone.ask('REGISTER', 'sip:%s@%s' % (phone.name, DOMAIN), 'secret', lines)
            assert status == 200, 'REGISTER of %s: %d' % (phone.name, status)
            # A process of its own, so that what bob's phones are sent does not delay who measures.
            multiprocessing.Process(target=phone.serve, daemon=True).start()
        sink = Phone(BASE + '5', at, 'sink').sock
        sink.settimeout(None)
        dropper = multiprocessing.Process(target=drop, args=(sink,), daemon=True)
        dropper.start()
        before, failed, _ = flooded(o, alice, sink.getsockname())
        dropper.terminate()
        assert not failed, '%d calls failed before the flood' % failed
        least = memory(server.pid)
        during, failed, fates = flooded(o, alice, at)
        assert server.poll() is None, 'the server ended'
        most = memory(server.pid)
        print('set-up p50/p99 while others drop the flood %.1f/%.1f ms (%d calls), while the server takes it %.1f/%.1f ms '
              '(%d calls, %d failed); answers to strangers %s; memory %.0f MiB, before %.0f'
              % (percentile(before, 0.5), percentile(before, 0.99), len(before), percentile(during, 0.5),
                 percentile(during, 0.99), len(during), failed, fates, most / 2**20, least / 2**20))
        within = percentile(during, 0.99) <= percentile(before, 0.99) * (1 + o.worse)
        return not failed and within and most <= o.memory * 2**20
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', required=True)
    parser.add_argument('--megabytes', type=int, default=500)
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--memory', type=int, default=512, help='MiB [default: 512]')
    parser.add_argument('--worse', type=float, default=0.2, help='growth of the 99th percentile [default: 0.2]')
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='strowger-room-') as folder:
        sys.exit(0 if run(o, folder) else 1)


if __name__ == '__main__':
    main()
