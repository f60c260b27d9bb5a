#!/usr/bin/env python3
"""Strowger with real phones, SIPp and Kamailio, all on loopback.

    verify/interop/run.py [--bin FILE] [--smoke] [--part N/COUNT] [--list] [NAME...]

Without names every scenario runs, at full size unless --smoke. One line a scenario, and a closing
line `N passed, N failed, N left out`. What this machine cannot do is left out, and with --strict a failure.
"""
import argparse
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import scenarios  # noqa: E402  (after the path is set)
import generators  # noqa: E402, F401  (adds its scenarios)
import balancers  # noqa: E402, F401  (the same)
import browsers  # noqa: E402, F401  (the same)
import carriers  # noqa: E402, F401  (the same)
import dashboard  # noqa: E402, F401  (the same)
import secure  # noqa: E402, F401  (the same)
import secure_balancers  # noqa: E402, F401  (the same)
import secure_trunks  # noqa: E402, F401  (the same)
import timers  # noqa: E402, F401  (the same)
import translation  # noqa: E402, F401  (the same)


def part(text):
    number, count = map(int, text.split('/'))
    if not 1 <= number <= count:
        raise ValueError(text)
    return number, count


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--smoke', action='store_true', help='small sizes, as in CI')
    p.add_argument('--strict', action='store_true', help='what is left out has failed, as in CI')
    p.add_argument('--part', metavar='N/COUNT', type=part, default=(1, 1), help='every COUNTth scenario from the Nth on')
    p.add_argument('--list', action='store_true', help='list the scenarios')
    p.add_argument('names', nargs='*')
    o = p.parse_args()
    if o.list:
        for name, function in scenarios.ALL.items():
            print('%-20s %s' % (name, function.__doc__.split('\n')[0]))
        return 0
    unknown = [n for n in o.names if n not in scenarios.ALL]
    if unknown:
        print('no such scenario: %s (--list shows them)' % ', '.join(unknown))
        return 2
    if not os.path.exists(o.bin):
        print('no binary at %s: build it first' % o.bin)
        return 2
    run = scenarios.Run(os.path.abspath(o.bin), o.smoke)
    passed = failed = left_out = 0
    number, count = o.part
    for name in (o.names or list(scenarios.ALL))[number - 1::count]:
        started = time.monotonic()
        try:
            detail = scenarios.ALL[name](run) or ''
            passed += 1
            print('ok   %-20s %5.1f s  %s' % (name, time.monotonic() - started, detail), flush=True)
        except scenarios.LeftOut as why:
            left_out += 1
            print('LEFT OUT %-16s %5.1f s  %s' % (name, time.monotonic() - started, why), flush=True)
        except Exception as error:  # whatever went wrong, the next scenario still runs
            failed += 1
            print('FAIL %-20s %5.1f s  %s' % (name, time.monotonic() - started, error), flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
    print('%d passed, %d failed, %d left out' % (passed, failed, left_out))
    return 1 if failed or (left_out and o.strict) else 0


if __name__ == '__main__':
    sys.exit(main())
