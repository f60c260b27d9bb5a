#!/usr/bin/env python3
"""From INVITE to 200 through a proxy: for how long the caller waits, and for how much of that the server holds the two.

    verify/bench/answer.py --bin target/release/strowger [--rate 4000] [--reps 5] [--busy-poll 200us] [--record verify/bench/record]

Proxy-200 calls whose callees answer at once, one worker on CPU 0, the generator (both sides, every message by itself) on CPU
1; `nothing` is the same calls without a server. The first columns are what the generator saw. The others, as root and with
tcpdump, are from a capture of further windows (transit.py): INVITE in to out and 200 in to out, added for each call.
Windows of two seconds, the servers in turns; medians, and the least and most of the 99th percentile.
"""
import argparse
import os
import re
import shutil
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import bench  # noqa: E402  (after the path is set)
import records  # noqa: E402
import transit  # noqa: E402
from harness import load, net, servers  # noqa: E402
from harness.sipp import SCENARIOS  # noqa: E402

CALLEES, WARM_UP, WINDOW = 1000, 3, 2


class Answer:
    def __init__(self, options):
        self.o, self.bench = options, bench.Bench(options)
        self.found = {}
        # The callee of the other benches rings for 20 ms.
        with open(os.path.join(SCENARIOS, 'callee.xml')) as f:
            self.callee = os.path.join(self.bench.dir, 'callee_at_once.xml')
            text = f.read()
        with open(self.callee, 'w') as f:
            f.write(re.sub(r'<pause milliseconds="20"/>', '', text, count=1))
        if 'relay' in options.servers and not shutil.which('cc'):
            print('left out: the relay (a C compiler)')
            options.servers.remove('relay')
        if 'relay' in options.servers:
            self.bench.relay = self.bench.relay_program()

    def server(self, name, ip):
        if name == 'relay':
            return bench.Relay(self.bench.relay, (ip, 5061), (ip, 5060), self.bench.server_cpu)
        if name == 'kamailio':
            return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), ['PROXY', 'USERS 0', 'WORKERS 1'], memory=2048,
                                    extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=0, tcp=False)
        config = '[auth]\nchallenge = []\n'
        if name == 'busy':
            config = 'busy_poll = "%s"\n[auth]\nchallenge = []\n' % self.o.busy_poll
        return servers.Strowger(self.o.bin, bench.DOMAIN, 1, False, config=config, cpu=0)

    def turn(self, name):
        ip = net.fresh_ip()
        if name == 'nothing':
            return self.window(name, None, (ip, 5060), ip)
        with self.server(name, ip) as server:
            if name != 'relay':
                net.register_block(server.address, [bench.user(i) for i in range(CALLEES)], ip, 5060, bench.DOMAIN)
            self.window(name, server, server.address, ip)
            if not transit.missing():
                with transit.Capture(server.address, self.bench.dir, transit.SUCCESS) as capture:
                    self.window(name, server, server.address, ip, capture)

    def window(self, name, server, remote, ip, capture=None):
        o, rows = self.o, [(bench.user(i % CALLEES), bench.user(1000000 + i)) for i in range(20000)]
        calls = load.Load(o.bin, 'overload_caller.xml', remote, callee=self.callee, ip=ip, rate=o.rate, rows=rows, cpu=1,
                          calls=int(o.rate * (WARM_UP + WINDOW + 2)), keys=[('domain', bench.DOMAIN)],
                          extra=['--grain', '0', '--warm-up', str(WARM_UP)])
        try:
            time.sleep(WARM_UP)
            if capture:
                capture.start()
                time.sleep(WINDOW)
                held = capture.stop()
            status = calls.wait(60)
        finally:
            calls.stop()
        said, failed = calls.latency('rtd-1'), calls.totals()['failed'] if status is not None else 'all'
        rows = self.found.setdefault(name, [])
        if not capture:
            rows.append(dict(p50=said['p50'], p90=said['p90'], p99=said['p99'], failed=failed))
            return
        # What a capture does to the callers' own times is not the server's.
        held = held.added()
        rows[-1].update(('held_p%d' % p, held[len(held) * p // 100]) for p in (50, 90, 99) if held)
        rows[-1]['failed'] = rows[-1]['failed'] or failed

    def table(self):
        lines = ['| between | INVITE to 200: p50 | p90 | p99 (least - most) | held by the server: p50 | p90 | p99 (least - most) |',
                 '|---|---|---|---|---|---|---|']
        for name, rows in self.found.items():
            mid = lambda key: statistics.median([r[key] for r in rows if key in r] or [float('nan')])
            span = lambda key: '%.0f (%.0f - %.0f)' % (mid(key), min(r[key] for r in rows), max(r[key] for r in rows)) \
                if all(key in r for r in rows) else '-'
            alone = lambda key: '%.0f' % mid(key) if all(key in r for r in rows) else '-'
            lines.append('| %s | %.0f | %.0f | %s | %s | %s | %s |' % (
                name, mid('p50'), mid('p90'), span('p99'), alone('held_p50'), alone('held_p90'), span('held_p99')))
        return lines


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='nothing,relay,strowger,kamailio', type=lambda s: s.split(','))
    p.add_argument('--busy-poll', metavar='TIME', help='also strowger with this busy_poll, such as 200us: "busy"')
    p.add_argument('--rate', type=int, default=4000, help='calls a second')
    p.add_argument('--reps', type=int, default=5)
    p.add_argument('--record', help='a folder for table and figures, with machine and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    o.servers += ['busy'] if o.busy_poll else []
    if 'kamailio' in o.servers and not servers.Kamailio.binary():
        print('left out: Kamailio (apt-get install kamailio)')
        o.servers.remove('kamailio')
    if transit.missing():
        print('What the servers hold is not measured: %s.' % transit.missing())
    answer = Answer(o)
    try:
        for rep in range(o.reps):
            for name in o.servers if rep % 2 == 0 else o.servers[::-1]:
                answer.turn(name)
    finally:
        shutil.rmtree(answer.bench.dir, ignore_errors=True)
    table = answer.table()
    print('INVITE to 200 at %d calls/s, microseconds; medians of %d windows' % (o.rate, o.reps))
    print('\n'.join(table))
    failed = {name: [r['failed'] for r in rows if r['failed']] for name, rows in answer.found.items()}
    failed = {name: counts for name, counts in failed.items() if counts}
    if failed:
        print('TROUBLE: calls failed: %s' % failed)
    if o.record:
        records.write(o.record, 'answer', 'From INVITE to 200 at %d calls/s, microseconds' % o.rate, o.reps, table, answer.found,
                      'medians, least and most')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
