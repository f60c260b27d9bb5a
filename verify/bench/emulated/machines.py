"""Instructions of a call, kernel included, counted in emulated machines (run.sh), one for each server and side by side.

Such a machine has no counters either, but its clock moves by one nanosecond for each instruction, so
that time on the processor is instructions; what this machine does besides does not change them.
"""
import json
import os
import subprocess
import sys
import threading

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run.sh')
# Long enough for a steady state; a second takes about a minute.
SECONDS = 2


def count(options):
    """The results of cost.py for these servers and workloads, in the order asked; what it takes is shown."""
    # The relay's one measurement goes with Strowger's.
    groups = [g for g in ([s for s in options.servers if s != 'kamailio'], [s for s in options.servers if s == 'kamailio']) if g]
    print('\ncounting instructions in %d emulated machines (about 15 minutes; --count no leaves it out)' % len(groups), flush=True)
    results = []
    # Two at a time on two processors: each keeps one busy.
    threads = [threading.Thread(target=machine, args=(options, group, results)) for group in groups]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    order = {s: i for i, s in enumerate(options.servers)}
    return sorted(results, key=lambda r: (options.workloads.index(r['workload']), order[r['server']]))


def machine(options, servers, results):
    """One machine from power on to power off; its results are added to `results`."""
    command = [RUN, options.bin, '--servers', ','.join(servers), '--workloads', ','.join(options.workloads),
               *(word for line in getattr(options, 'config', ()) for word in ('--config', line)), '--rate', str(options.rate), '--seconds', str(SECONDS), '--generator', options.generator]
    done = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors='replace')
    others = []
    for line in done.stdout:
        head, found, rest = line.partition('RESULT ')
        if found and not head.strip():
            result = json.loads(rest)
            results.append(result)
            print('emulated %-16s %-9s %7.1f k instructions/call %s' % (
                result['workload'], result['server'], result['instructions'] / 1e3, result.get('trouble', '')), flush=True)
        else:
            others.append(line)
    if done.wait():
        print('the emulated machine of %s failed; it said last:\n%s' % (' and '.join(servers), ''.join(others[-15:])),
              file=sys.stderr)


def table(results):
    """Instructions of a call and a message, and their ratios to Kamailio's and the relay's."""
    calls = {(r['workload'], r['server']): r['instructions'] for r in results}
    relay = next((r['instructions'] / r['messages'] for r in results if r['server'] == 'relay'), None)
    print('%-16s %-9s %13s %7s %9s %12s %12s %11s %8s' % (
        'workload', 'server', 'calls ok', 'resent', 'msg/call', 'k-instr/call', 'k-instr/msg', ': kamailio', ': relay'))
    for r in results:
        other = calls.get((r['workload'], 'kamailio'))
        print('%-16s %-9s %13s %7d %9.2f %12.1f %12.2f %11s %8s' % (
            r['workload'], r['server'], '%d/%d' % (r['ok'], r['created']), r['retransmissions'], r['messages'], r['instructions'] / 1e3,
            r['instructions'] / 1e3 / r['messages'], '%.2f' % (r['instructions'] / other) if other else '-',
            # The relay knows no digest: its cost of a message times this workload's messages.
            '%.2f' % (r['instructions'] / r['messages'] / relay) if relay else '-'))
