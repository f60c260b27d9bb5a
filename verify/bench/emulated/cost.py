#!/usr/bin/env python3
"""Runs in the machine of run.sh, where a nanosecond on the processor is an instruction: the calls of
../bench.py, one server after the other, and what each call cost, as one line `RESULT {...}` each."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import bench  # noqa: E402  (after the path is set)

# A user costs no instructions by being there, but an emulated import of many takes minutes.
USERS = 12000


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('--bin', required=True)
    p.add_argument('--servers', default='strowger,kamailio', type=lambda s: s.split(','))
    p.add_argument('--workloads', default='proxy200,proxy200-digest,register-digest,mixed', type=lambda s: s.split(','))
    p.add_argument('--rate', type=int, default=1000, help='calls a second of the emulated clock')
    p.add_argument('--seconds', type=float, default=2, help='length of the window')
    bench.add_config(p)
    p.add_argument('--generator', default='load', choices=('load', 'sipp'), help='what makes the calls')
    p.add_argument('--grades', default='single', type=lambda s: s.split(','),
                   help="Strowger with one worker (single), or with two and steering by the kernel (kernel) or over rings "
                        "(ring). On loopback the sender pays for the kernel's part, so `generator` counts as well")
    p.add_argument('--warm-up', type=float, default=5, help='seconds before the window')
    o = p.parse_args()
    bench.WARM_UP, bench.TAIL = o.warm_up, 1.0
    bench.CALLERS = USERS - bench.CALLEES
    for workload in bench.WORKLOADS.values():
        workload['users'] = min(workload['users'], USERS)
        # Of a balancer, whose warm-up would take half an hour here, the forgetting of old calls is not in the count.
        workload.pop('warm_up', None)
    runs = bench.Bench(o)
    runs.perf = False
    if 'relay' in o.servers:
        runs.relay = runs.relay_program()
    if o.grades != ['single']:
        # What the generator hands to the kernel as one goes to one worker.
        runs.extra = ['--grain', '0']
    failed = False
    for workload in o.workloads:
        for server in o.servers:
            if not bench.asked(server, workload):
                continue
            for grade in o.grades if server in ('strowger', 'together') else ['single']:
                runs.workers, runs.steering = (1, 'auto') if grade == 'single' else (2, grade)
                result = runs.measure(server, workload)
                result['instructions'] = result.pop('cpu_us_call') * 1e3
                result['generator'] = result.pop('generator_us_call') * 1e3
                result['grade'] = grade
                failed |= 'trouble' in result
                print('RESULT ' + json.dumps(result), flush=True)
    return 1 if failed else 0


sys.exit(main())
