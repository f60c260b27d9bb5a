"""The time that a server itself holds the messages of a call, from a capture of the loopback interface.

The kernel stamps a datagram when it comes into the server's socket and when it leaves it again, so this is the server's
waking, queueing and work, and nothing of the generator's: subtracting percentiles of runs with and without a server
charges the generator's own waking to the server.
"""
import ctypes
import mmap
import os
import re
import shutil
import socket
import struct
import subprocess
import time

# What is sent together may stand in one packet of the capture (segmentation offload).
MESSAGE = re.compile(rb'(INVITE si|REGISTER |SIP/2\.0 (?=1[1-9]|2)\d)[^\0]*?\r\nCall-ID: *([^\r]+)\r\n', re.S)
INVITE, REGISTER, PROVISIONAL, SUCCESS = b'INVITE si', b'REGISTER ', b'SIP/2.0 1', b'SIP/2.0 2'
# The method at the start of a datagram, or the first digit of a status code, but not 100.
FILTER = 'udp and host %s and port %d and (udp[8:4] = 0x%s or (udp[16:1] = 0x3%d and udp[16:2] != 0x3130))'

# Of <linux/if_packet.h> and <linux/socket.h>.
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION, PACKET_IGNORE_OUTGOING = 263, 5, 6, 10, 23
TPACKET_V3, TP_STATUS_USER, ETH_P_ALL, SO_ATTACH_FILTER = 2, 1, 3, 26


def missing():
    """Why nothing can be captured; `None`: it can."""
    if not shutil.which('tcpdump'):
        return 'tcpdump, which compiles the filter, is not installed'
    return None if os.geteuid() == 0 else 'a capture needs root'


class Capture:
    """Windows of what goes to the address and comes from it. The kernel keeps the packets in memory that is taken before
    the traffic of interest begins (a quarter of a GiB stops its processor for half a second), and nobody wakes for them. What
    is left is the copy of each packet, which its sender makes.

        with Capture(address, folder) as capture:    # then the traffic
            capture.start()
            ...
            window = capture.stop()                  # its times are read later: window.added()
    """

    # Bytes, of which each message takes its length and some eighty: two seconds of half load of one core.
    MEMORY, BLOCK = 256 << 20, 1 << 20
    # After this of milliseconds the kernel gives a block out that is not full.
    RETIRE = 20

    def __init__(self, address, folder, response=PROVISIONAL, request=INVITE):
        self.address, self.folder, self.response, self.request = address, folder, response, request
        self.windows, self.bound = 0, False

    def __enter__(self):
        text = FILTER % (*self.address, self.request[:4].hex(), int(self.response[-1:]))
        said = subprocess.run(['tcpdump', '-i', 'lo', '-ddd', text], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.wanted = [tuple(map(int, line.split())) for line in said.splitlines()[1:]]
        # Of no protocol, so that nothing comes yet.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        # On loopback each packet goes out and comes in.
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        blocks = self.MEMORY // self.BLOCK
        ring = struct.pack('7I', self.BLOCK, blocks, self.BLOCK, blocks, self.RETIRE, 0, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
        self.ring = mmap.mmap(self.socket.fileno(), self.MEMORY)
        self.next = 0
        return self

    def __exit__(self, *_):
        self.ring.close()
        self.socket.close()

    def let(self, program):
        """Attaches a filter."""
        code = b''.join(struct.pack('HBBI', *step) for step in program)
        room = ctypes.create_string_buffer(code, len(code))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack('HL', len(program), ctypes.addressof(room)))

    def start(self):
        self.let(self.wanted)
        if not self.bound:
            self.socket.bind(('lo', ETH_P_ALL))
            self.bound = True

    def stop(self):
        """The window since `start`."""
        # A filter that lets nothing in.
        self.let([(6, 0, 0, 0)])
        time.sleep(self.RETIRE * 5 / 1000)
        self.windows += 1
        path = os.path.join(self.folder, 'window-%d' % self.windows)
        with open(path, 'wb') as f:
            # The kernel goes through the blocks in turn.
            while True:
                at = self.next * self.BLOCK
                status, _, _, length = struct.unpack_from('4I', self.ring, at + 8)
                if not status & TP_STATUS_USER:
                    break
                f.write(struct.pack('I', length))
                f.write(self.ring[at:at + length])
                struct.pack_into('I', self.ring, at + 8, 0)
                self.next = (self.next + 1) % (self.MEMORY // self.BLOCK)
        _, dropped, _ = struct.unpack('3I', self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
        return Window(self, path, dropped)


class Window:
    """What was captured between a start and a stop."""

    def __init__(self, capture, path, dropped):
        self.address, self.response, self.request = capture.address, capture.response, capture.request
        self.path, self.lost = path, dropped

    def dropped(self):
        """Packets that there was no room for."""
        return self.lost

    def calls(self):
        """For each call whose messages were all captured, when they came and went, microseconds: INVITE in, out, the first
        response of that class in, out; of a REGISTER, which the server answers itself: in, the response out."""
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
        return [[seen[(call, *w)] for w in wanted] for call in calls if all((call, *w) in seen for w in wanted)]

    def added(self):
        """Microseconds for which the server had the messages of each call, sorted."""
        return sorted(sum(times[1::2]) - sum(times[::2]) for times in self.calls())

    def own(self):
        """The same of registrations at one worker, without the wait behind others: from when a request was there and the
        answer before had gone, to its answer. Whatever keeps the worker from it counts, its waking too."""
        turns, before = [], 0
        for came, went in sorted(self.calls(), key=lambda times: times[1]):
            turns.append(went - max(came, before))
            before = went
        return sorted(turns)


def datagrams(path):
    """Microseconds, source and target (address and port) and payload of each UDP datagram over IPv4."""
    with open(path, 'rb') as f:
        data = f.read()
    base = 0
    while base + 4 <= len(data):
        length, = struct.unpack_from('I', data, base)
        base += 4
        packets, at = struct.unpack_from('2I', data, base + 12)
        at += base
        for _ in range(packets):
            following, sec, nano, size = struct.unpack_from('4I', data, at)
            mac, = struct.unpack_from('H', data, at + 24)
            packet = data[at + mac:at + mac + size]
            at += following
            if packet[12:14] != b'\x08\x00' or packet[23] != 17:
                continue
            udp = 14 + (packet[14] & 15) * 4
            ips, ports = packet[26:34], packet[udp:udp + 4]
            yield sec * 1_000_000 + nano / 1000, ips[:4] + ports[:2], ips[4:] + ports[2:], packet[udp + 8:]
        base += length
