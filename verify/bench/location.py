#!/usr/bin/env python3
"""What millions of users cost the location table: bytes for each, the time of single steps, no sawtooth.

    verify/bench/location.py --program target/release/examples/location_cost [--users 10000000] [--record verify/bench/record]

Runs the example of core/sip-registrar, which registers, refreshes and forgets all users without sockets and without a
store, three times or more, and writes a record with a plot of the processor time of each second of the table's time.
"""
import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import records  # noqa: E402  (after the path is set)

STEP = re.compile(r'^ *(.+?) +(\d+) steps, us: p50 ([\d.]+) +p99 ([\d.]+) +p99\.99 ([\d.]+) +longest (\d+)$')
SIZE = re.compile(r'([\d.]+) bytes each by the tables\' own count, ([\d.]+) by resident memory')
FIELDS = (('p50_us', 'p50, us'), ('p99_us', 'p99, us'), ('p9999_us', 'p99.99, us'), ('longest_us', 'longest, us'))


def once(o, series):
    """All figures of one run, by what was done."""
    done = subprocess.run([o.program, str(o.users), series], stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    if done.returncode:
        sys.exit('%s: ended with %d' % (o.program, done.returncode))
    found, after = {}, ''
    for line in done.stdout.splitlines():
        step, size = STEP.match(line), SIZE.search(line)
        if step:
            name = step.group(1)
            after = after if name.startswith('sweep mean') else name
            key = '%s during %s' % ('sweep', after) if name.startswith('sweep mean') else name
            found[key] = dict(zip((f[0] for f in FIELDS), map(float, step.groups()[2:])))
        elif size:
            found['bytes'] = dict(counted=float(size.group(1)), resident=float(size.group(2)))
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--program', default='target/release/examples/location_cost')
    p.add_argument('--users', type=int, default=10000000)
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--record', help='a folder for table, figures and plot')
    o = p.parse_args()
    if not os.path.exists(o.program):
        print('no %s: cargo build --release -p store --example location_cost' % o.program)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        series = os.path.join(scratch, 'series.csv')
        runs = [once(o, series) for _ in range(o.reps)]
        with open(series, newline='') as f:
            rows = [[float(v) for v in row.values()] for row in csv.DictReader(f)]
    table = ['| %d users | %s |' % (o.users, ' | '.join(f[1] for f in FIELDS)), '|---|%s' % ('---|' * len(FIELDS))]
    table += ['| %s | %s |' % (what, ' | '.join(records.spread([r[what] for r in runs], key, '%.4g') for key, _ in FIELDS))
              for what in runs[0] if what != 'bytes']
    sizes = [r['bytes'] for r in runs]
    table += ['', 'Bytes a user: %s by the tables\' own count, %s by resident memory.' % tuple(
        records.spread(sizes, key, '%.1f') for key in ('counted', 'resident'))]
    print('\n'.join(table))
    if o.record:
        base = records.write(o.record, 'location', 'The location table with %d users' % o.users, o.reps, table, runs)
        records.plot(base + '.svg', 'seconds of the table\'s time: register, refresh, expire',
                     'ms of a processor in each second', [('REGISTER', [(r[0], r[1]) for r in rows]),
                                                          ('sweep', [(r[0], r[2]) for r in rows])])
        with open(base + '.md', 'a') as f:
            f.write('\n![processor time of each second](%s.svg)\n' % os.path.basename(base))
    return 0


if __name__ == '__main__':
    sys.exit(main())
