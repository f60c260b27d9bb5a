#!/usr/bin/env python3
"""Calls while all phones on TLS reconnect at once, as after an outage.

    verify/bench/reconnect.py --bin target/release/strowger [--phones 15000] [--rate 200] [--record lab/record]

Phones of a few processes connect over TLS as fast as they can (full handshakes, TLS 1.3), register, and stay. Before and
meanwhile `strowger load` places calls over UDP through the same server: callee and caller are on the same machine. The
figure is the time from an INVITE to its 200, before the storm and from its beginning to its end. Everything shares the
machine's processors, so the times include those that the phones take.
"""
import argparse
import multiprocessing
import os
import resource
import socket
import ssl
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import connections  # noqa: E402  (after the path is set)
import records  # noqa: E402
from harness import load, net, servers  # noqa: E402

QUIET = 10
FIELDS = (('phones', 'phones', '%d'), ('seconds', 'all registered after, s', '%.1f'), ('calls', 'calls meanwhile', '%d'),
          ('failed', 'failed', '%d'), ('p99_quiet_ms', 'setup p99 before, ms', '%.1f'), ('p99_ms', 'setup p99 meanwhile, ms', '%.1f'),
          ('max_ms', 'longest setup, ms', '%.1f'))


def phones(address, roots, first, count, block, done):
    """Connects `count` phones, registers them, and says so; ends with its parent."""
    context = ssl.create_default_context(cafile=roots)
    open_ = []
    for i in range(first, first + count):
        plain = socket.socket()
        plain.bind(('%s.%d' % (block, 10 + i % 200), 0))
        plain.settimeout(60)
        plain.connect(address)
        me = '%s:%d' % plain.getsockname()
        phone = context.wrap_socket(plain, server_hostname=address[0])
        phone.sendall(connections.REGISTER.format(domain=connections.DOMAIN, me=me, user=connections.user(i), i=i, transport='tls',
                                                  via='TLS').encode())
        answer = phone.recv(4096)
        if not answer.startswith(b'SIP/2.0 200'):
            raise AssertionError('the server answered %r' % answer[:200])
        open_.append(phone)
    done.put(count)
    time.sleep(600)


def calls(o, server, ip, count):
    rows = [(connections.user(i % 100), connections.user(5000000 + i)) for i in range(2000)]
    return load.Load(o.bin, 'caller.xml', server.address, callee='callee.xml', ip=ip, rate=o.rate, calls=count, rows=rows,
                     keys=[('domain', connections.DOMAIN)])


def once(o):
    with servers.Strowger(o.bin, connections.DOMAIN, 2, False, secure=True) as server:
        ip = net.fresh_ip()
        net.register_block(server.address, [connections.user(i) for i in range(100)], ip, 5060, connections.DOMAIN)
        quiet = calls(o, server, ip, o.rate * QUIET)
        quiet.wait(QUIET + 60)
        done, each = multiprocessing.Queue(), o.phones // o.processes
        during = calls(o, server, ip, o.rate * o.seconds)
        begun = time.monotonic()
        block = net.fresh_ip().rsplit('.', 1)[0]
        storm = [multiprocessing.Process(target=phones, daemon=True, args=(
            server.place('tls'), server.authority.roots, 1000 + i * each, each, block, done)) for i in range(o.processes)]
        for process in storm:
            process.start()
        registered = sum(done.get(timeout=300) for _ in storm)
        seconds = time.monotonic() - begun
        during.wait(o.seconds + 60)
        for process in storm:
            process.kill()
        totals, times = during.totals(), during.latency('setup')
        return dict(phones=registered, seconds=seconds, calls=totals['created'], failed=totals['failed'],
                    p99_quiet_ms=quiet.latency('setup')['p99'] / 1e3, p99_ms=times['p99'] / 1e3, max_ms=times['max'] / 1e3)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--phones', type=int, default=15000)
    p.add_argument('--processes', type=int, default=2, help='processes that the phones are in [default: 2]')
    p.add_argument('--rate', type=int, default=200, help='calls a second [default: 200]')
    p.add_argument('--seconds', type=int, default=20, help='for which calls are placed from the storm on [default: 20]')
    p.add_argument('--reps', type=int, default=1)
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    results = []
    for rep in range(o.reps):
        results.append(once(o))
        print('%d/%d %s' % (rep + 1, o.reps, ', '.join('%s %.1f' % f for f in results[-1].items())), flush=True)
    table = ['| %s |' % ' | '.join(f[1] for f in FIELDS), '|%s' % ('---|' * len(FIELDS)),
             '| %s |' % ' | '.join(records.spread(results, key, form) for key, _, form in FIELDS)]
    print('\n' + '\n'.join(table))
    if o.record:
        records.write(o.record, 'reconnect', 'Calls while phones on TLS reconnect', o.reps, table, results)
    return 0


if __name__ == '__main__':
    sys.exit(main())
