#!/usr/bin/env python3
"""What a Proxy-200 call costs the server over TCP, TLS and WSS: Strowger, and Kamailio over TCP and TLS, in one run.

    verify/bench/transports.py --bin target/release/strowger [--server-bin FILE] [--transports tcp,tls,wss] [--reps 3]
                               [--rate 1000] [--seconds 3] [--record verify/bench/record]

The calls are those of bench.py (proxy200). All callers are behind one connection and all callees behind another, which
stay, as those of a trunk do. The connections are made before the measured window, so no handshake is in it. Servers and
transports take turns within each repetition. CPU time is good only between servers of the same run.

Over TCP and TLS the server opens the connection to the callees. Over WebSocket it cannot, so they have registered over
theirs. Kamailio has no figure there.

The generator's own time, of both sides of a call, is in the table too. Over WebSocket that of the callees is not in it.
With `--generator sipp --transports tcp` it is SIPp's over TCP.

Over TLS both sides have TLS 1.3 with AES-256-GCM, certificates are ECDSA on P-256, and Strowger verifies the callee's.
Kamailio verifies none. `--judge` compares the ratios with their limits, and exits with 1 if one is too high.
"""
import argparse
import os
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import bench  # noqa: E402  (after the path is set)
import records  # noqa: E402
from harness import load, net, servers, sipp  # noqa: E402

WORKLOAD = 'proxy200'
# Ratios of processor time: (numerator, denominator, at most).
ASKED = ((('strowger', 'tls'), ('strowger', 'tcp'), 1.4), (('strowger', 'tls'), ('kamailio', 'tls'), 0.6),
         (('strowger', 'wss'), ('strowger', 'tcp'), 1.5))
WAYS = dict(tcp='t1', tls='l1', ws='w1', wss='wss1')


class Pair:
    """The two SIPp processes over TCP, as one generator."""

    def __init__(self, ip, remote, rate, calls, rows, cpu):
        self.callee = sipp.Sipp('callee.xml', ip=ip, transport='t1', cpu=cpu)
        self.caller = sipp.Sipp('caller.xml', remote, ip=ip, port=5061, transport='t1', rate=rate, calls=calls, limit=20000, rows=rows,
                                cpu=cpu, keys=[('domain', bench.DOMAIN)])
        self.process = self
        self.wait, self.totals, self.done_at, self.errors = (
            getattr(self.caller, name) for name in ('wait', 'totals', 'done_at', 'errors'))

    def pids(self):
        return self.caller.process.pids() + self.callee.process.pids()

    def messages(self, since, until):
        return self.caller.messages(since, until) + self.callee.messages(since, until)

    def stop(self):
        self.caller.stop()
        self.callee.stop()


class Transports(bench.Bench):
    """The calls of bench.py, over one transport."""

    def __init__(self, options):
        super().__init__(options)
        self.perf = self.perf and options.count
        self.transport = None

    def server(self, name):
        secure = self.transport in ('tls', 'wss')
        if name == 'kamailio':
            return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), ['PROXY', 'USERS 0', 'WITH_TCP'], memory=1024,
                                    extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=self.server_cpu, secure=secure)
        server = servers.Strowger(self.o.server_bin, bench.DOMAIN, 1, False, config='[auth]\nchallenge = []\n',
                                  cpu=self.server_cpu, secure=secure)
        if secure:
            with open(server.config, 'a') as f:
                f.write('[tls]\nroots = "%s"\n' % server.authority.roots)
        return server

    def measure(self, name, transport):
        self.transport, callee, phones = transport, net.fresh_ip(), []
        with self.server(name) as server:
            self.extra = ['-t', WAYS[transport]]
            if transport in ('tls', 'wss'):
                chain, key = server.authority.issue('callee', ['IP:' + callee])
                self.extra += ['-tls_cert', chain, '-tls_key', key, '-tls_ca', server.authority.roots]
            users = [bench.user(i) for i in range(bench.CALLEES)]
            try:
                if transport in ('ws', 'wss'):
                    phones.append(self.one(server, 'register_stay.xml', net.fresh_ip(), 500, bench.CALLEES, [(u,) for u in users]))
                    time.sleep(bench.CALLEES / 500 + 1)
                else:
                    net.register_block(server.address, users, callee, '5060;transport=' + transport, bench.DOMAIN)
                result = self.load(name, WORKLOAD, bench.WORKLOADS[WORKLOAD], server, (callee, 5060), phones)
            finally:
                for one in phones:
                    one.stop()
        return dict(result, transport=transport)

    def one(self, server, scenario, ip, rate, calls, rows):
        """A generator that uses one connection for its calls, and answers them."""
        return load.Load(self.o.bin, scenario, server.place(self.transport), callee='callee.xml', ip=ip, rate=rate, calls=calls,
                         cpu=self.load_cpu, keys=[('domain', bench.DOMAIN)], rows=rows, extra=self.extra)

    def generator(self, workload, w, server, total, caller):
        if self.o.generator == 'sipp':
            return Pair(caller[0], server.place('tcp'), self.o.rate, total, bench.rows(workload, 0), self.load_cpu)
        return self.one(server, w['scenario'], caller[0], self.o.rate, total, bench.rows(workload, 0))

    def run(self):
        o = self.o
        turns = [(name, transport) for transport in o.transports for name in o.servers if name != 'kamailio' or transport in ('tcp', 'tls')]
        turns = [t for t in turns if self.available(t[0])]
        for rep in range(o.reps):
            for name, transport in turns if rep % 2 == 0 else turns[::-1]:
                result = self.measure(name, transport)
                self.results.append(result)
                print('%d/%d %-4s %-9s %s' % (rep + 1, o.reps, transport, name, bench.line(result)), flush=True)
        shutil.rmtree(self.dir, ignore_errors=True)


def ratios(results, key='cpu_us_call'):
    """(name, ratio, limit) for each ratio that was measured: the median over the repetitions."""
    runs = {}
    for r in results:
        runs.setdefault((r['server'], r['transport']), []).append(r[key])
    for one, other, most in ASKED:
        if one in runs and other in runs:
            yield '%s over %s to %s over %s' % (*one, *other), statistics.median(
                a / b for a, b in zip(runs[one], runs[other])), most


def table(results, unit):
    runs = {}
    for r in results:
        runs.setdefault((r['transport'], r['server']), []).append(r)
    yield '| transport | server | %s | of the generator | messages | calls good | resent |' % unit
    yield '|---|---|---|---|---|---|---|'
    for name, own in runs.items():
        yield '| %s | %s | %s | %s | %s | %d of %d | %d |' % (
            *name, *(records.spread(own, key, '%.1f') for key in ('cpu_us_call', 'generator_us_call')),
            records.spread(own, 'messages', '%.2f'),
            sum(r['ok'] for r in own), sum(r['created'] for r in own), sum(r['retransmissions'] for r in own))
    for what, ratio, most in ratios(results):
        yield ''
        yield '%s: %.2f (asked: at most %.1f)' % (what, ratio, most)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--server-bin', help='run this program as the server [default: that of --bin]')
    p.add_argument('--servers', default='strowger,kamailio', type=lambda s: s.split(','))
    p.add_argument('--transports', default='tcp,tls,wss', type=lambda s: s.split(','), help='tcp, tls, ws, wss')
    p.add_argument('--generator', default='load', choices=('load', 'sipp'), help='sipp: over TCP only')
    p.add_argument('--rate', type=int, default=1000, help='calls a second')
    p.add_argument('--seconds', type=float, default=3, help='length of the window')
    p.add_argument('--warm-up', type=float, default=bench.WARM_UP, help='seconds before it')
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--count', action='store_true', help='count instructions as well, where perf can')
    p.add_argument('--counted', action='store_true', help='for emulated/run.sh: a nanosecond is an instruction')
    p.add_argument('--judge', action='store_true', help='exit with 1 if a ratio is higher than asked')
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    if o.generator == 'sipp' and o.transports != ['tcp']:
        p.error('--generator sipp: SIPp of Debian has no TLS and no WebSocket; add --transports tcp')
    o.server_bin = os.path.abspath(o.server_bin or o.bin)
    bench.WARM_UP, bench.TAIL = o.warm_up, 1.0
    runs = Transports(o)
    runs.run()
    lines = list(table(runs.results, 'thousand instructions a call' if o.counted else 'us a call'))
    print('\n' + '\n'.join(lines))
    if o.record:
        records.write(o.record, 'transports', 'A Proxy-200 call over each transport', o.reps, lines, runs.results)
    trouble = any('trouble' in r for r in runs.results)
    return 1 if trouble or (o.judge and any(ratio > most for _, ratio, most in ratios(runs.results))) else 0


if __name__ == '__main__':
    sys.exit(main())
