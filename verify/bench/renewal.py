#!/usr/bin/env python3
"""Renews certificates all the time during calls over TLS. Checks that no call fails and that memory does not grow.

    verify/bench/renewal.py --bin target/release/strowger [--seconds 60] [--interval 0.2] [--rate 20]
                            [--record lab/record]

Each caller makes a handshake of its own (`-t ln`) and a Proxy-200 call to a callee behind TLS. Chain and key are put in the
place of the old files one after the other, as ACME clients do, and the server is asked to reload. It also looks by itself
every two seconds, and may find half of a renewal then. `read` counts the renewals that it took. Good is: no call failed,
it took nine of ten at least, and the median memory (Pss) of the last third is within 5 % of that of the second.
"""
import argparse
import os
import statistics
import sys
import threading
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import bench  # noqa: E402  (after the path is set)
import records  # noqa: E402
from harness import load, net, servers  # noqa: E402

PAIRS = 20


class Renewals(threading.Thread):
    """Replaces the certificate of a server by one pair after the other, and samples its memory."""

    def __init__(self, server, interval):
        super().__init__(daemon=True)
        self.server, self.interval, self.over, self.done, self.memory = server, interval, threading.Event(), 0, []
        names = [server.domain, 'IP:' + server.ip, server.ip]
        self.pairs = [server.authority.issue('renewed', names, 90) for _ in range(PAIRS)]

    def put(self, source, place):
        with open(source) as f, open(place + '.new', 'w') as new:
            new.write(f.read())
        os.rename(place + '.new', place)

    def run(self):
        while not self.over.wait(self.interval):
            chain, key = self.pairs[self.done % PAIRS]
            self.put(chain, self.server.chain)
            self.put(key, self.server.key)
            asked = urllib.request.Request('http://%s/v1/reload' % self.server.admin, method='POST', data=b'{}',
                                           headers={'Content-Type': 'application/json'})
            with urllib.request.urlopen(asked, timeout=20):
                pass
            self.done += 1
            self.memory.append(records.memory_kb([self.server.process.proc.pid]) / 1024)

    def stop(self):
        self.over.set()
        self.join()


def once(o):
    callee = net.fresh_ip()
    server = servers.Strowger(o.bin, bench.DOMAIN, 2, False, config='[auth]\nchallenge = []\n', secure=True)
    with open(server.config, 'a') as f:
        f.write('[tls]\nroots = "%s"\n' % server.authority.roots)
    with server:
        chain, key = server.authority.issue('callee', ['IP:' + callee])
        users = [bench.user(i) for i in range(bench.CALLEES)]
        net.register_block(server.address, users, callee, '5060;transport=tls', bench.DOMAIN)
        extra = ['-t', 'ln', '-tls_cert', chain, '-tls_key', key, '-tls_ca', server.authority.roots]
        read = lambda: server.process.log(1 << 20).count('certificate read')
        before, renewals = read(), Renewals(server, o.interval)
        calls = load.Load(o.bin, bench.WORKLOADS['proxy200']['scenario'], server.place('tls'), callee='callee.xml', ip=callee,
                          rate=o.rate, calls=int(o.rate * o.seconds), keys=[('domain', bench.DOMAIN)],
                          rows=bench.rows('proxy200', 0), extra=extra)
        renewals.start()
        calls.wait(o.seconds + 60)
        renewals.stop()
        totals, taken = calls.totals(), read() - before
        handshakes = server.metric('strowger_tls_handshakes_total')
    third = lambda n: statistics.median(renewals.memory[len(renewals.memory) * n // 3:len(renewals.memory) * (n + 1) // 3])
    return dict(totals, renewals=renewals.done, read=taken, handshakes=handshakes, memory_mib=third(2),
                memory_growth=100 * (third(2) / third(1) - 1))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--seconds', type=float, default=60)
    p.add_argument('--interval', type=float, default=0.2, help='seconds between renewals [default: 0.2]')
    p.add_argument('--rate', type=float, default=20, help='calls per second [default: 20]')
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    result = once(o)
    table = ['| calls good | failed | handshakes | renewals | read by the server | memory, MiB | growth, % |', '|---|---|---|---|---|---|---|',
             '| %d of %d | %d | %d | %d | %d | %.1f | %.1f |' % tuple(result[k] for k in (
                 'ok', 'created', 'failed', 'handshakes', 'renewals', 'read', 'memory_mib', 'memory_growth'))]
    print('\n'.join(table))
    if o.record:
        records.write(o.record, 'renewal', 'Certificates renewed every %g s under calls over TLS' % o.interval, 1, table, [result])
    good = result['ok'] == result['created'] > 0 and result['failed'] == 0 and result['read'] >= 0.9 * result['renewals'] and result['memory_growth'] < 5
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
