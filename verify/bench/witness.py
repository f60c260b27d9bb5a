"""SIPp as the independent witness: at a low rate, both generators must see the same of one server."""
import csv
import glob
import os
import statistics
import time

from harness import load, net, servers, sipp

DOMAIN = 'witness.test'
RATE, CALLS = 50, 500
CLOCK_MONOTONIC_COARSE = 6


def error_ms():
    """How far the medians may be apart. SIPp reads a clock that goes in steps, of 4 ms on most machines, and
    begins calls at a step, so its stopwatch may be a whole one off; and it counts in milliseconds."""
    return 1 + 1e3 * time.clock_getres(CLOCK_MONOTONIC_COARSE)


def timed(directory):
    """The caller's scenario with a stopwatch from INVITE to 200."""
    with open(os.path.join(sipp.SCENARIOS, 'caller.xml')) as f:
        text = f.read()
    text = text.replace('<send retrans="500">', '<send retrans="500" start_rtd="1">', 1)
    text = text.replace('<recv response="200" rrs="true"/>', '<recv response="200" rrs="true" rtd="1"/>', 1)
    path = os.path.join(directory, 'timed.xml')
    with open(path, 'w') as f:
        f.write(text)
    return path


def witness(binary, directory):
    """Prints what both saw; whether they agree. A machine that others keep busy delays the one or the other; a
    difference of their own is there each time, so they have three times to agree."""
    scenario = timed(directory)
    return any(once(binary, scenario) for _ in range(3))


def once(binary, scenario):
    """Prints what both saw as callers of one callee, whose pauses are exact; whether they agree."""
    seen = {}
    rows = [('callee', 'caller')]
    for name in ('sipp', 'strowger'):
        with servers.Strowger(binary, DOMAIN, 1, auth=False) as server:
            ip = net.fresh_ip()
            net.register_block(server.address, ['callee'], ip, 5060, DOMAIN)
            common = dict(ip=ip, rate=RATE, calls=CALLS, rows=rows, keys=[('domain', DOMAIN)])
            callee = load.Load(binary, 'callee.xml', ip=ip)
            if name == 'sipp':
                caller = sipp.Sipp(scenario, server.address, port=5061, extra=['-trace_rtt', '-rtt_freq', '1'], **common)
                status = caller.wait(60)
                times = [t for path in glob.glob(os.path.join(caller.dir, '*_rtt.csv')) for t in rtts(path)]
                median = statistics.median(times) if times else float('nan')
            else:
                caller = load.Load(binary, scenario, server.address, port=5061, **common)
                status = caller.wait(60)
                median = caller.latency('rtd-1')['p50'] / 1e3
            callee.stop()
            sums = caller.totals()
            seen[name] = (sums['ok'], sums['failed'], median)
            print('witness   %-9s %d of %d calls succeeded, INVITE to 200: median %.3f ms%s' % (
                name, sums['ok'], CALLS, median, '' if status in (0, 1) else '  (status %s)' % status))
    (ok, failed, theirs), (own_ok, own_failed, ours) = seen['sipp'], seen['strowger']
    agreed = (ok, failed) == (own_ok, own_failed) == (CALLS, 0) and abs(ours - theirs) <= error_ms()
    print('witness   %s: medians differ by %.3f ms, stated error %.0f ms' % (
        'they agree' if agreed else 'THEY DO NOT AGREE', abs(ours - theirs), error_ms()))
    return agreed


def rtts(path):
    """Response times in milliseconds of SIPp's -trace_rtt."""
    with open(path, newline='') as f:
        return [float(r[1]) for r in csv.reader(f, delimiter=';') if len(r) >= 2 and r[1].replace('.', '', 1).isdigit()]
