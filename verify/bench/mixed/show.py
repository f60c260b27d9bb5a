#!/usr/bin/env python3
"""Shows the requests of the workload `mixed`: of all kinds, or of those named.

    verify/bench/mixed/show.py [--raw] [--each N] [KIND...]

With --raw each message follows a line `KIND FLAG LENGTH` byte for byte; a live test parses these.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from mixed import scenario  # noqa: E402  (after the path is set)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--raw', action='store_true', help='bytes after a line that says how many')
    p.add_argument('--each', type=int, default=1, help='messages of each form')
    p.add_argument('kinds', nargs='*')
    o = p.parse_args()
    mixed = scenario.Mixed('192.0.2.7')
    for kind, flag, message in scenario.samples(mixed, o.each):
        if o.kinds and kind.name not in o.kinds:
            continue
        head = '%s %s %d' % (kind.name, flag, len(message))
        sys.stdout.buffer.write(('%s\n' % head).encode() if o.raw else ('\n=== %s\n' % head).encode())
        sys.stdout.buffer.write(message)


if __name__ == '__main__':
    main()
