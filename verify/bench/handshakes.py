#!/usr/bin/env python3
"""TLS 1.3 handshakes for a second of processor time: through the server, and rustls alone in memory.

    verify/bench/handshakes.py --bin target/release/strowger [--count 3000] [--reps 3] [--record lab/record]

Certificates are ECDSA on P-256; each connection ends after a keepalive was answered. The processor time of the server
includes accepting and closing. The client is `shell/tls/examples/handshakes.rs`, built in release.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import records  # noqa: E402  (after the path is set)
from harness import servers  # noqa: E402

KINDS = ('full', 'resumed')


def once(o):
    with servers.Strowger(o.bin, 'bench.test', 1, False, secure=True) as server:
        place = '%s:%d' % server.place('tls')
        done = subprocess.run([o.client, server.chain, server.key, server.authority.roots, server.domain, place,
                               str(server.process.proc.pid), str(o.count)], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError('the client failed:\n' + done.stderr)
    rates = {tuple(line.split()[:2]): float(line.split()[2]) for line in done.stdout.splitlines()}
    return {'%s_%s' % (who, kind): rates[who, kind] for who in ('alone', 'server') for kind in KINDS} | {
        'ratio_' + kind: rates['server', kind] / rates['alone', kind] for kind in KINDS}


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--client', help='the client, built before [default: built by cargo]')
    p.add_argument('--count', type=int, default=3000, help='handshakes of each kind [default: 3000]')
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    if not o.client:
        subprocess.run(['cargo', 'build', '--locked', '--release', '-p', 'tls', '--example', 'handshakes'], check=True)
        target = os.environ.get('CARGO_TARGET_DIR', os.path.join(os.path.dirname(os.path.dirname(HERE)), 'target'))
        o.client = os.path.join(target, 'release', 'examples', 'handshakes')
    results = []
    for rep in range(o.reps):
        results.append(once(o))
        print('%d/%d %s' % (rep + 1, o.reps, ', '.join('%s %.2f' % f for f in results[-1].items())), flush=True)
    table = ['| handshakes | through the server | rustls alone | ratio |', '|---|---|---|---|']
    table += ['| %s | %s | %s | %s |' % (kind, records.spread(results, 'server_' + kind, '%.0f'),
                                         records.spread(results, 'alone_' + kind, '%.0f'),
                                         records.spread(results, 'ratio_' + kind, '%.2f')) for kind in KINDS]
    print('\n' + '\n'.join(table))
    if o.record:
        records.write(o.record, 'handshakes', 'TLS handshakes for a second of processor time', o.reps, table, results)
    return 0


if __name__ == '__main__':
    sys.exit(main())
