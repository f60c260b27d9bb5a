#!/usr/bin/env python3
"""Runs in the machine of run.sh, where a nanosecond on the processor is an instruction: the flows of
../load.py, made by SIPp and by `strowger load` in turn, and what a call costs the generator (its processes
of both sides, user and kernel; the relay or server between them is not counted). With --judge the exit status is 1 where a
call costs `strowger load` more than it may at the rates that it is made for (../verdicts.py), or none was measured."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import load  # noqa: E402  (after the path is set)
import verdicts  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--bin', required=True)
    p.add_argument('--flows', default=','.join(load.FLOWS), type=lambda s: s.split(','))
    p.add_argument('--rates', default='500', type=lambda s: [int(r) for r in s.split(',')],
                   help='calls a second of the emulated clock')
    p.add_argument('--seconds', type=float, default=2, help='length of the window')
    p.add_argument('--generators', default='sipp,strowger', type=lambda s: s.split(','))
    p.add_argument('--extra', default='', help='further options of strowger load, separated by blanks')
    p.add_argument('--judge', action='store_true', help='exit with 1 also if a call costs more than it may, or is not measured')
    o = p.parse_args()
    load.WARM_UP = 2.0
    runs = load.Bench(o)
    runs.cpus = (None, None)
    failed, calls = False, {}
    for flow in o.flows:
        for o.rate in o.rates:
            costs = {}
            for name in o.generators:
                per_second, _, rate, trouble = runs.measure(flow, name)
                costs[name] = 1e6 / per_second
                failed |= bool(trouble)
                if (flow, name) == ('call', 'strowger') and not trouble:
                    calls[o.rate] = costs[name] * 1e3
                print('%-9s %-9s %7.1f k-instructions/call, user and kernel, at %.0f calls/s%s'
                      % (flow, name, costs[name], rate, trouble), flush=True)
            if len(costs) == 2:
                print('%-9s Strowger to SIPp %.2f' % (flow, costs['strowger'] / costs['sipp']), flush=True)
    print('a bare relay of the same packets: %s k-instructions/call' % ', '.join('%.1f' % (1e6 / f) for f in runs.floor))
    kept = not o.judge or verdicts.tell('the generator', verdicts.emulated(calls))
    return 1 if failed or not kept else 0


sys.exit(main())
