#!/usr/bin/env python3
"""What becomes of users who register and call when there are more of them than can be carried.

    verify/bench/storm.py --bin target/release/strowger [--users 20000,24000] [--seconds 60]

The server has one worker on CPU 0 and a stated share of it (--quota, as overload.py has it); the users are those of
`strowger load --users` on CPU 1, with digest and time compressed 60 times: each registers every 10 s, asks again a second
after a refusal (whatever its Retry-After) and repeats what gets no answer as RFC 3261 says, with one Call-ID for all its registrations. So a refusal
brings more work, and what can be carried may shrink to nothing (registrations that succeed, in the last line of each) where a
server refuses dearly. Every few seconds it says what came, was refused with an answer and without, and what the kernel dropped.
"""
import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import overload  # noqa: E402  (after the path is set)
from harness import net, servers  # noqa: E402

DOMAIN = 'bench.test'
FIRST = 1000000
EVERY = 5
SHOWN = {
    'REGISTER': 'strowger_requests_received_total{method="REGISTER"}',
    'accepted': 'strowger_registrations_total{result="accepted"}',
    'INVITE': 'strowger_requests_received_total{method="INVITE"}',
    'answered calls': 'strowger_calls_total{outcome="answered"}',
    'refused': 'strowger_overload_refused_total{how="answered"}',
    'in silence': 'strowger_overload_refused_total{how="unanswered"}',
    'by the kernel': 'strowger_udp_sieved_total',
}


def metrics(server):
    with urllib.request.urlopen('http://%s/metrics' % server.admin, timeout=30) as page:
        lines = [l.rsplit(' ', 1) for l in page.read().decode().splitlines() if l and not l.startswith('#')]
    return {name: float(value) for name, value in lines}


def watch(server, generator, begun):
    """A line every few seconds, until the users have ended."""
    last, then = metrics(server), time.time()
    while generator.proc.poll() is None:
        time.sleep(EVERY)
        found, now = metrics(server), time.time()
        rates = ('%s %.0f' % (what, (found.get(name, 0) - last.get(name, 0)) / (now - then)) for what, name in SHOWN.items())
        print('%5.0f s  a second: %s' % (now - begun, ', '.join(rates)), flush=True)
        last, then = found, now


def run(o, count):
    """So many users: what succeeded of their registrations and calls, in per cent."""
    box = '%s:5090' % net.fresh_ip()
    users = [('u%d' % (FIRST + i), 'p%d' % (FIRST + i)) for i in range(count)]
    config = '[voicemail]\ntarget = "sip:voicemail@%s"\non = ["busy"]\n' % box
    share = overload.Group(o.quota, o.period)
    how = share.make()
    if how is None:
        share = overload.Stopper(o.quota, o.period)
        how = share.make()
    print('%d users; the server has one worker with %s' % (count, how), flush=True)
    try:
        with tempfile.TemporaryDirectory() as scratch, \
                servers.Strowger(o.bin, DOMAIN, 1, True, config=config, users=users, cpu=0) as server:
            overload.Bench(o).settle(server.process.pids())
            share.take(server.process.pids())
            report = os.path.join(scratch, 'users.json')
            generator = servers.Process(
                ['taskset', '-c', '1', o.bin, 'load', '--users', str(count), '--domain', DOMAIN, '--compress', '60',
                 '--workers', '1', '--measure', '%ds' % o.seconds, '--mailbox', box, '-i', net.fresh_ip(), '--json', report,
                 # What is asked is the server; that the machine was busy is in the report.
                 '--lateness', '1000', '--quiet', '%s:%d' % server.address])
            try:
                watch(server, generator, time.time())
            finally:
                generator.stop()
                share.release()
            with open(report) as f:
                value = {m['key']: m['value'] for m in json.load(f)['metrics']}
    finally:
        share.remove()
    return value['registrations.success'], value['calls.success']


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--users', default='20000,24000', help='how many, one run after the other')
    p.add_argument('--seconds', type=int, default=60, help='how long is measured, after all have come')
    p.add_argument('--quota', type=float, default=0.06, help='share of one CPU that the server has')
    p.add_argument('--period', type=int, default=16667, help='microseconds in which it has it')
    o = p.parse_args()
    for count in map(int, o.users.split(',')):
        print('%d users: %.1f %% of registrations succeed, %.1f %% of calls' % (count, *run(o, count)), flush=True)


main()
