#!/usr/bin/env python3
"""What the steering program costs in the kernel: nanoseconds a datagram, by the kernel's own count.

    verify/bench/steering.py --bin target/release/strowger [--rate 500] [--seconds 10]

`strowger serve` with two workers and `--steering kernel` takes Proxy-200 calls of `strowger load`; meanwhile the kernel
counts the runs of its programs and the time that they take (kernel.bpf_stats_enabled), its two readings of a clock for
each run included. Needs to be root. Says too how many datagrams crossed workers all the same.
"""
import argparse
import ctypes
import os
import platform
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from harness import load, net, servers  # noqa: E402  (after the path is set)

DOMAIN, CALLEES = 'bench.test', 1000

STATS = '/proc/sys/kernel/bpf_stats_enabled'
NUMBER_OF_BPF = {'x86_64': 321, 'aarch64': 280}
PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 11, 13, 15
# Of struct bpf_prog_info: where the name, the time and the number of runs are, the lengths of the code, and all of it.
NAME, TIME, RUNS, JITED, XLATED, INFO = 64, 192, 200, 16, 20, 232
# Its first word: which sockets it decides for. The sieve has our name as well, and is of another kind.
SK_REUSEPORT = 21
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    return libc.syscall(NUMBER_OF_BPF[platform.machine()], command, attr, len(attr))


def word(buffer, at, size=8):
    return int.from_bytes(buffer.raw[at:at + size], 'little')


def programs():
    """(runs, nanoseconds, instructions, bytes of machine code) of each steering program that is loaded."""
    found, ident = [], 0
    while True:
        attr = ctypes.create_string_buffer(ident.to_bytes(4, 'little') + bytes(60), 64)
        if bpf(PROG_GET_NEXT_ID, attr) < 0:
            return found
        ident = word(attr, 4, 4)
        attr = ctypes.create_string_buffer(ident.to_bytes(4, 'little') + bytes(60), 64)
        fd = bpf(PROG_GET_FD_BY_ID, attr)
        if fd < 0:
            continue
        info = ctypes.create_string_buffer(INFO)
        attr = ctypes.create_string_buffer(fd.to_bytes(4, 'little') + INFO.to_bytes(4, 'little')
                                           + ctypes.addressof(info).to_bytes(8, 'little') + bytes(48), 64)
        if bpf(OBJ_GET_INFO_BY_FD, attr) == 0 and word(info, 0, 4) == SK_REUSEPORT \
                and info.raw[NAME:NAME + 16].startswith(b'strowger'):
            found.append((word(info, RUNS), word(info, TIME), word(info, XLATED, 4) // 8, word(info, JITED, 4)))
        os.close(fd)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--rate', type=int, default=500, help='calls a second')
    p.add_argument('--seconds', type=float, default=10)
    o = p.parse_args()
    with open(STATS, 'r+') as f:
        before = f.read().strip()
    callee = (net.fresh_ip(), 5060)
    with servers.Strowger(os.path.abspath(o.bin), DOMAIN, 2, False, steering='kernel') as server:
        net.register_block(server.address, ['b%d' % i for i in range(CALLEES)], *callee, DOMAIN)
        with open(STATS, 'w') as f:
            f.write('1')
        try:
            first = programs()
            total = int(o.rate * o.seconds)
            calls = load.Load(os.path.abspath(o.bin), 'caller.xml', server.address, callee='callee.xml', ip=callee[0],
                              rate=o.rate, calls=total, rows=[('b%d' % (i % CALLEES), 'c%d' % i) for i in range(20000)], keys=[('domain', DOMAIN)],
                              # What it hands to the kernel as one goes to one worker.
                              extra=['--grain', '0'])
            calls.wait(o.seconds + 60)
            time.sleep(0.5)
            last = programs()
            crossed, came = (server.metric('strowger_udp_%s_total' % name) for name in ('hops', 'in'))
        finally:
            with open(STATS, 'w') as f:
                f.write(before)
    runs = sum(r[0] for r in last) - sum(r[0] for r in first)
    spent = sum(r[1] for r in last) - sum(r[1] for r in first)
    sums = calls.totals()
    print('%d instructions, %d bytes of machine code; Linux %s' % (last[0][2], last[0][3], platform.release()))
    print('%d of %d calls; %d runs, %.0f ns each; %d of %d datagrams crossed workers' % (
        sums['ok'], total, runs, spent / max(runs, 1), crossed, came))
    return 0 if sums['ok'] == total and crossed == 0 else 1


if __name__ == '__main__':
    sys.exit(main())
