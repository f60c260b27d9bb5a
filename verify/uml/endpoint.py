"""An SCTP endpoint that writes raw packets. It does what no kernel does."""
import os
import socket
import struct
import time

INIT, INIT_ACK, SACK, HEARTBEAT, HEARTBEAT_ACK, ABORT, SHUTDOWN, SHUTDOWN_ACK = 1, 2, 3, 4, 5, 6, 7, 8
ERROR, COOKIE_ECHO, COOKIE_ACK, SHUTDOWN_COMPLETE, FORWARD_TSN = 9, 10, 11, 14, 192
DATA, ANY = 0, -1
END, BEGIN, UNORDERED = 1, 2, 4
STATE_COOKIE, FORWARD_TSN_SUPPORTED = 7, 0xc000
FRAGMENT = 1200  # bytes of a message in a DATA chunk


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def entry(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value


TABLE = [entry(n) for n in range(256)]


def chunk(kind, flags=0, value=b''):
    return struct.pack('!BBH', kind, flags, 4 + len(value)) + value + bytes(-len(value) % 4)


def packet(source, target, ports, tag, chunks):
    """An IP packet with these chunks (RFC 9260 section 3)."""
    common = struct.pack('!HHI', *ports, tag)
    crc = crc32c(common + bytes(4) + chunks)
    sctp = common + struct.pack('<I', crc) + chunks
    header = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(sctp), 1, 0, 64, socket.IPPROTO_SCTP, 0,
                         socket.inet_aton(source), socket.inet_aton(target))
    total = sum(struct.unpack('!10H', header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return header[:10] + struct.pack('!H', ~total & 0xffff) + header[12:] + sctp


def init_chunk(tag, tsn, more=b''):
    """An INIT (section 3.3.2): window 64 KiB, 100 streams each way."""
    return chunk(INIT, 0, struct.pack('!IIHHI', tag, 65_536, 100, 100, tsn) + more)


def init(source, target, port):
    """An IP packet with an INIT from any address."""
    return packet(source, target, (40_000, port), 0, init_chunk(0x12345678, 1))


class Endpoint:
    """A peer on an interface whose kernel does not have its address. It can stand for the flow of a phone. The
    interface `to` is the other end of the link."""

    acknowledges = True

    def __init__(self, interface, to, address, server, port=40_000, limit=10.0):
        self.address, self.server, self.port, self.limit = address, server, port, limit
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.socket.bind((interface, 0x0800))
        with open('/sys/class/net/%s/address' % to) as file:
            self.far = (interface, 0x0800, 0, 0, bytes.fromhex(file.read().strip().replace(':', '')))
        self.tag, self.peer_tag, self.tsn, self.heard = 0, 0, 0, 0
        self.chunks = []

    def close(self):
        self.socket.close()

    def fileno(self):
        return self.socket.fileno()

    def getsockname(self):
        return self.address, self.port

    def send_chunks(self, *chunks, tag=None):
        ports = (self.port, self.server[1])
        raw = packet(self.address, self.server[0], ports, self.peer_tag if tag is None else tag, b''.join(chunks))
        self.socket.sendto(raw, self.far)

    def expect(self, *kinds):
        """Returns the next chunk of one of these kinds: kind, flags and value. Acknowledges DATA and HEARTBEAT."""
        end = time.monotonic() + self.limit
        while True:
            while self.chunks:
                kind, flags, value = self.chunks.pop(0)
                if kind == HEARTBEAT:
                    self.send_chunks(chunk(HEARTBEAT_ACK, 0, value))
                if kind == DATA and self.acknowledges:
                    self.heard, = struct.unpack_from('!I', value)
                    self.send_chunks(chunk(SACK, 0, struct.pack('!IIHH', self.heard, 65_536, 0, 0)))
                if kind in kinds or ANY in kinds:
                    return kind, flags, value
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            self._take(self.socket.recv(1 << 16))

    def _take(self, raw):
        skip = (raw[0] & 15) * 4
        if raw[9] != socket.IPPROTO_SCTP or raw[16:20] != socket.inet_aton(self.address):
            return
        source, target = struct.unpack_from('!HH', raw, skip)
        if (source, target) != (self.server[1], self.port):
            return
        at, end = skip + 12, struct.unpack_from('!H', raw, 2)[0]
        while at + 4 <= end:
            kind, flags, length = struct.unpack_from('!BBH', raw, at)
            self.chunks.append((kind, flags, raw[at + 4:at + length]))
            at += length + -length % 4

    def ask(self, more=b''):
        """Sends an INIT with a new tag. Returns the cookie of the answer."""
        self.tag = struct.unpack('!I', os.urandom(4))[0] | 1
        self.tsn = 1000
        self.send_chunks(init_chunk(self.tag, self.tsn, more), tag=0)
        _, _, value = self.expect(INIT_ACK)
        self.peer_tag, _, _, _, first = struct.unpack_from('!IIHHI', value)
        self.heard = first - 1
        at = 16
        while at + 4 <= len(value):
            kind, length = struct.unpack_from('!HH', value, at)
            if kind == STATE_COOKIE:
                return value[at + 4:at + length]
            at += length + -length % 4
        raise AssertionError('an INIT ACK without a cookie')

    def connect(self, more=b''):
        self.send_chunks(chunk(COOKIE_ECHO, 0, self.ask(more)))
        self.expect(COOKIE_ACK)

    def send(self, message, stream=0, end=True):
        """Sends a message, or its beginning."""
        for at in range(0, len(message), FRAGMENT):
            last = at + FRAGMENT >= len(message)
            flags = UNORDERED | (BEGIN if at == 0 else 0) | (END if last and end else 0)
            value = struct.pack('!IHHI', self.tsn, stream, 0, 0) + message[at:at + FRAGMENT]
            self.tsn += 1
            self.send_chunks(chunk(DATA, flags, value))

    def recv(self, _):
        """The next message, which must fit into one packet."""
        _, flags, value = self.expect(DATA)
        assert flags & (BEGIN | END) == BEGIN | END, flags
        return value[12:]
