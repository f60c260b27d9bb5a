"""The time that a server itself holds the messages of a call, from a capture of the loopback interface.

The kernel stamps a datagram when it comes into the server's socket and when it leaves it again, so this is the server's
waking, queueing and work, and nothing of the generator's: subtracting percentiles of runs with and without a server
charges the generator's own waking to the server.
"""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

# What is sent together may stand in one packet of the capture (segmentation offload).
MESSAGE = re.compile(rb'(INVITE si|REGISTER |SIP/2\.0 (?=1[1-9]|2)\d)[^\0]*?\r\nCall-ID: *([^\r]+)\r\n', re.S)
INVITE, REGISTER, PROVISIONAL, SUCCESS = b'INVITE si', b'REGISTER ', b'SIP/2.0 1', b'SIP/2.0 2'
# The method at the start of a datagram, or the first digit of a status code, but not 100.
FILTER = 'udp and host %s and port %d and (udp[8:4] = 0x%s or (udp[16:1] = 0x3%d and udp[16:2] != 0x3130))'


def missing():
    """Why nothing can be captured; `None`: it can."""
    if not shutil.which('tcpdump'):
        return 'tcpdump is not installed'
    return None if os.geteuid() == 0 else 'a capture needs root'


class Capture:
    """Of what goes to the address and comes from it, until it is left. The kernel keeps the packets in memory, and tcpdump
    stands still meanwhile: awake it would take turns of the processor with who is captured, and of milliseconds. What is left is
    the copy of each packet, which its sender makes. Its start, which takes time for memory, and what comes after are left out."""

    START, END = 300_000, 100_000
    # KiB: two seconds of half load of one core, and some.
    MEMORY = 256 << 10

    def __init__(self, address, path, response=PROVISIONAL, request=INVITE):
        self.address, self.path, self.response, self.request = address, path, response, request

    def __enter__(self):
        self.process = subprocess.Popen(
            ['nice', '-n', '19', 'tcpdump', '-i', 'lo', '-n', '-s', '0', '-B', str(self.MEMORY), '-w', self.path, '-Z', 'root',
             FILTER % (*self.address, self.request[:4].hex(), int(self.response[-1:]))],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        # It says that it listens when it does.
        line = self.process.stderr.readline()
        if 'listening' not in line:
            line += self.process.stderr.readline()
        if 'listening' not in line:
            raise SystemExit('tcpdump: ' + line.strip())
        # Let it come to where it waits for packets.
        time.sleep(0.1)
        self.process.send_signal(signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        self.end = time.time() * 1e6 - self.END
        self.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate()[1]

    def dropped(self):
        found = re.search(r'(\d+) packets dropped by kernel', self.said)
        return int(found.group(1)) if found else 0

    def added(self):
        """Microseconds of each call, sorted: INVITE in to out, and the first response of that class in to out. Of a REGISTER,
        which the server answers itself: in, to the response out."""
        ip, port = self.address
        server = socket.inet_aton(ip) + struct.pack('>H', port)
        seen = {}
        for stamp, source, target, payload in datagrams(self.path):
            way = 'in' if target == server else 'out' if source == server else None
            for found in MESSAGE.finditer(payload) if way else ():
                seen.setdefault((found.group(2), found.group(1), way), stamp)
        calls = {call for call, _, _ in seen}
        wanted = [(kind, way) for kind in (self.request, self.response) for way in ('in', 'out')]
        wanted = wanted if self.request == INVITE else [wanted[0], wanted[3]]
        begin = min(seen.values(), default=0) + self.START
        whole = [[seen[(call, *w)] for w in wanted] for call in calls if all((call, *w) in seen for w in wanted)]
        whole = [times for times in whole if begin <= times[0] <= self.end]
        return sorted(sum(times[1::2]) - sum(times[::2]) for times in whole)


def datagrams(path):
    """Microseconds, source and target (address and port) and payload of each UDP datagram over IPv4."""
    with open(path, 'rb') as f:
        data = f.read()
    order = '<' if data[:4] == b'\xd4\xc3\xb2\xa1' else '>'
    at = 24
    while at + 16 <= len(data):
        sec, micro, length, _ = struct.unpack_from(order + 'IIII', data, at)
        packet = data[at + 16:at + 16 + length]
        at += 16 + length
        if packet[12:14] != b'\x08\x00' or packet[23] != 17:
            continue
        udp = 14 + (packet[14] & 15) * 4
        ips, ports = packet[26:34], packet[udp:udp + 4]
        yield sec * 1_000_000 + micro, ips[:4] + ports[:2], ips[4:] + ports[2:], packet[udp + 8:]
