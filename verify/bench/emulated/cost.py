#!/usr/bin/env python3
"""Runs in the machine of run.sh, where a nanosecond on the processor is an instruction: the calls of
../bench.py, one server after the other, and what each call cost."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import bench  # noqa: E402  (after the path is set)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--bin', required=True)
    p.add_argument('--workloads', default='proxy200,proxy200-digest', type=lambda s: s.split(','))
    p.add_argument('--rate', type=int, default=300, help='calls a second of the emulated clock')
    p.add_argument('--seconds', type=float, default=3, help='length of the window')
    p.add_argument('--generator', default='sipp', choices=('load', 'sipp'), help='what makes the calls')
    o = p.parse_args()
    # No counters here either: time on the processor is what is counted.
    o.reps = 1
    bench.WARM_UP = 5.0
    runs = bench.Bench(o)
    runs.perf = False
    failed = False
    for workload in o.workloads:
        costs = {}
        for server in ('strowger', 'kamailio'):
            result = runs.measure(server, workload)
            costs[server] = result['cpu_us_call']
            failed |= 'trouble' in result
            print('%-16s %-9s %7.1f k-instructions/call, user and kernel; %d retransmissions %s'
                  % (workload, server, costs[server], result['retransmissions'], result.get('trouble', '')), flush=True)
        print('%-16s Strowger to Kamailio %.2f' % (workload, costs['strowger'] / costs['kamailio']), flush=True)
    return 1 if failed else 0


sys.exit(main())
