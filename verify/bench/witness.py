"""SIPp as the independent witness: at a low rate, both generators must see the same of one server."""
import csv
import glob
import math
import os
import time

from harness import load, net, servers, sipp

DOMAIN = 'witness.test'
RATE, CALLS = 50, 500
CLOCK_MONOTONIC_COARSE = 6
# The callee answers after the one time or, to so many calls, after the other (milliseconds): so much farther apart than
# the stated error that a generator which sees another percentile, or none of them, does not agree.
FAST, SLOW, SHARE = 50, 200, 0.3
PERCENTILES = (50, 90)


def error_ms():
    """How far the percentiles may be apart. SIPp reads a clock that goes in steps, of 4 ms on most machines, and
    begins calls at a step, so its stopwatch may be a whole one off; and it counts in milliseconds."""
    return 1 + 1e3 * time.clock_getres(CLOCK_MONOTONIC_COARSE)


def changed(directory, name, changes):
    """A scenario of verify/sipp with these texts in place of others; its path."""
    with open(os.path.join(sipp.SCENARIOS, name)) as f:
        text = f.read()
    for old, new in changes:
        if old not in text:
            raise AssertionError('%s has no %s' % (name, old))
        text = text.replace(old, new, 1)
    path = os.path.join(directory, 'witness_' + name)
    with open(path, 'w') as f:
        f.write(text)
    return path


def scenarios(directory):
    """The caller with a stopwatch from INVITE to 200, and the callee with its two times."""
    caller = changed(directory, 'caller.xml', (
        ('<send retrans="500">', '<send retrans="500" start_rtd="1">'),
        ('<recv response="200" rrs="true"/>', '<recv response="200" rrs="true" rtd="1"/>')))
    callee = changed(directory, 'callee.xml', ((
        '<pause milliseconds="20"/>',
        '<nop next="slow" chance="%g"/><pause milliseconds="%d"/><nop next="answer"/>'
        '<label id="slow"/><pause milliseconds="%d"/><label id="answer"/>' % (SHARE, FAST, SLOW)),))
    return caller, callee


def witness(binary, directory):
    """Prints what both saw; whether they agree. A machine that others keep busy delays the one or the other now and
    then; a difference of their own is there more often, so two of three times count."""
    files = scenarios(directory)
    first = once(binary, files)
    return first or (once(binary, files) and once(binary, files))


def percentile(values, percent):
    """The smallest value that so many per cent are not above."""
    values = sorted(values)
    return values[max(0, math.ceil(len(values) * percent / 100) - 1)] if values else float('nan')


def once(binary, files):
    """Prints what both saw as callers of one callee, whose pauses are exact; whether they agree."""
    scenario, answers = files
    seen = {}
    rows = [('callee', 'caller')]
    for name in ('sipp', 'strowger'):
        with servers.Strowger(binary, DOMAIN, 1, auth=False) as server:
            ip = net.fresh_ip()
            net.register_block(server.address, ['callee'], ip, 5060, DOMAIN)
            common = dict(ip=ip, rate=RATE, calls=CALLS, rows=rows, keys=[('domain', DOMAIN)])
            callee = load.Load(binary, answers, ip=ip)
            if name == 'sipp':
                caller = sipp.Sipp(scenario, server.address, port=5061, extra=['-trace_rtt', '-rtt_freq', '1'], **common)
                status = caller.wait(60)
                times = [t for path in glob.glob(os.path.join(caller.dir, '*_rtt.csv')) for t in rtts(path)]
                found = [percentile(times, p) for p in PERCENTILES]
            else:
                caller = load.Load(binary, scenario, server.address, port=5061, **common)
                status = caller.wait(60)
                found = [caller.latency('rtd-1')['p%d' % p] / 1e3 for p in PERCENTILES]
            callee.stop()
            sums = caller.totals()
            seen[name] = (status, sums['ok'], sums['failed'], found)
            print('witness   %-9s status %s, %d of %d calls succeeded, %d failed, INVITE to 200: %s' % (
                name, status, sums['ok'], CALLS, sums['failed'], shown(found)))
    return agreement(seen['sipp'], seen['strowger'])


def shown(found):
    return ', '.join('p%d %.3f ms' % pair for pair in zip(PERCENTILES, found))


def agreement(theirs, ours):
    """Prints whether what both saw is the same: status 0, all calls succeeded, none failed, the percentiles near each
    other."""
    apart = [abs(a - b) for a, b in zip(theirs[3], ours[3])]
    good = all(seen[:3] == (0, CALLS, 0) for seen in (theirs, ours))
    # What is no number is near to nothing.
    agreed = good and all(ms <= error_ms() for ms in apart)
    print('witness   %s: they differ by %s, stated error %.0f ms' % (
        'they agree' if agreed else 'THEY DO NOT AGREE', shown(apart), error_ms()))
    return agreed


def rtts(path):
    """Response times in milliseconds of SIPp's -trace_rtt."""
    with open(path, newline='') as f:
        return [float(r[1]) for r in csv.reader(f, delimiter=';') if len(r) >= 2 and r[1].replace('.', '', 1).isdigit()]
