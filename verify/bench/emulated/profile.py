#!/usr/bin/env python3
"""Where the instructions of a call go, function by function, the kernel's included.

    verify/bench/emulated/run.sh BIN profile [--workload proxy200] [--server strowger] [--transport tls] [--top 60]

The machine of run.sh, with a plugin (profile.c) that counts what the server's process executes in one second at
--rate calls a second. Prints instructions and entries of each function per call. Takes a minute or two.
Needs a C compiler and nm besides what run.sh needs.
"""
import argparse
import bisect
import collections
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, 'run.sh')
SYMBOLS = os.path.join(HERE, '../../../.cache/kernel/symbols')
# Where tasks change, and the system call that begins and ends the window.
SWITCH, TOGGLE = '__switch_to_asm', '__x64_sys_sethostname'


# ---------------------------------------------------------------- in the machine
def measure(o):
    """One measurement of bench.py with the window marked for the plugin."""
    sys.path.insert(0, os.path.dirname(HERE))
    import bench
    bench.WARM_UP, bench.TAIL, bench.CALLERS = 2.0, 1.0, 11000
    for workload in bench.WORKLOADS.values():
        workload['users'] = min(workload['users'], 12000)
        workload.pop('warm_up', None)
    o.seconds, o.generator = 1, 'load'
    if o.transport == 'udp':
        runs = bench.Bench(o)
    else:
        import transports
        o.server_bin, o.workload, o.count = o.bin, o.transport, False
        runs = transports.Transports(o)
    runs.perf = False
    if o.workers > 1:
        runs.workers, runs.steering, runs.extra = o.workers, 'kernel', ['--grain', '0']
    if o.server == 'relay':
        runs.relay = runs.relay_program()
    read, asked = bench.cpu_ns, []

    def cpu_ns(pids):
        # Of the server and of the generator, before the window and after it.
        asked.append(pids)
        if len(asked) == 3:
            socket.sethostname('after')
        result = read(pids)
        if len(asked) == 1:
            for pid in pids:
                with open('/proc/%d/maps' % pid) as f:
                    places = [l.split()[0].split('-') for l in f if ' /' in l and l.split()[0] < '6']
                print('PROGRAM %s %s' % (places[0][0], places[-1][1]) if places else 'PROGRAM', flush=True)
        if len(asked) == 2:
            socket.sethostname('before')
        return result

    bench.cpu_ns = cpu_ns
    print('RESULT ' + json.dumps(runs.measure(o.server, o.workload)), flush=True)


# ---------------------------------------------------------------- around it
def emulate(o, job, plugin=''):
    """The lines that a job in the machine says."""
    done = subprocess.run([RUN, o.bin, *job], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors='replace',
                          env=dict(os.environ, EMULATOR_OPTIONS=plugin))
    if done.returncode:
        sys.exit('the emulated machine failed; it said last:\n' + done.stdout[-2000:])
    return done.stdout.splitlines()


def kernel_symbols(o):
    """Addresses and names of the kernel's functions, sorted; asked of it once."""
    if not os.path.exists(SYMBOLS):
        lines = [l.strip() for l in emulate(o, ['symbols'])]
        with open(SYMBOLS + '.new', 'w') as f:
            f.writelines(l + '\n' for l in lines if re.match(r'[0-9a-f]{16} [tTwW] \S+$', l))
        os.replace(SYMBOLS + '.new', SYMBOLS)
    with open(SYMBOLS) as f:
        return sorted((int(a, 16), name) for a, _, name in (l.split() for l in f))


def program_symbols(path):
    said = subprocess.run(['nm', '-C', '--defined-only', path], stdout=subprocess.PIPE, text=True).stdout
    found = (l.split(' ', 2) for l in said.splitlines())
    return sorted((int(f[0], 16), f[2]) for f in found if len(f) == 3 and f[1] in 'tTwW')


def named(symbols, address):
    at = bisect.bisect_right(symbols, (address, '\x7f')) - 1
    return symbols[at] if at >= 0 else (0, '?')


def places_of(path, addresses):
    """For each address the nearest place in the repository's own source, and what is inlined there."""
    done = subprocess.run(['addr2line', '-afiC', '-e', path], input='\n'.join('%x' % a for a in addresses),
                          stdout=subprocess.PIPE, text=True)
    found, lines, at = {}, done.stdout.splitlines(), None
    pairs = iter(lines)
    for line in pairs:
        if line.startswith('0x'):
            at, found[at] = int(line, 16), None
            continue
        place = next(pairs, '')
        own = re.search(r'(?:core|shell|strowger|load)/[^ ]*?\.rs:\d+', place)
        if own and '/library/' not in place and not found[at]:
            found[at] = '%s %s' % (own.group(0), line.rsplit('::', 1)[-1])
    return found


def profile(o):
    kernel = kernel_symbols(o)
    places = dict((name, address) for address, name in kernel)
    with tempfile.TemporaryDirectory() as scratch:
        plugin, out = os.path.join(scratch, 'profile.so'), os.path.join(scratch, 'counts')
        subprocess.run([shutil.which('cc') or 'gcc', '-O2', '-Wall', '-fPIC', '-shared', '-o', plugin,
                        os.path.join(HERE, 'profile.c')], check=True)
        options = '-plugin %s,switch=%x,toggle=%x,out=%s' % (plugin, places[SWITCH], places[TOGGLE], out)
        job = ['profiled', '--workload', o.workload, '--server', o.server, '--rate', str(o.rate),
               '--workers', str(o.workers), '--transport', o.transport]
        lines = emulate(o, job, options)
        with open(out) as f:
            counts = [(int(p, 16), int(a, 16), int(n), int(c)) for p, a, n, c in (l.split() for l in f)]
    found = [l.split() for l in lines if l.startswith('PROGRAM ') and len(l.split()) == 3]
    if len(found) != 1 or not counts:
        sys.exit('nothing was counted; the machine said last:\n' + '\n'.join(lines[-15:]))
    base, end = (int(word, 16) for word in found[0][1:])
    if base >> 32 != end >> 32:
        sys.exit('the program was at addresses by which it cannot be told from others; run it again')
    program = program_symbols(o.bin) if o.server == 'strowger' else []
    spent, entered = collections.Counter(), collections.Counter()
    own = [a - base for p, a, _, _ in counts if p == base >> 32 and base <= a < end]
    places = places_of(o.bin, own) if o.lines and program else {}
    for owner, address, length, times in counts:
        if owner != base >> 32:
            continue
        if address >> 47:
            start, name = named(kernel, address)
            name = 'kernel  ' + name
        elif program and base <= address < end:
            start, name = named(program, address - base)
            start, name = start + base, 'program ' + (places.get(address - base) or name)
        else:
            start, name = 0, 'program (all)' if base <= address < end else 'program (libraries)'
        spent[name] += length * times
        entered[name] += times if address == start else 0
    # The window is a second long.
    calls = float(o.rate)
    for side in ('program', 'kernel'):
        print('%9.0f         %s' % (sum(v for k, v in spent.items() if k.startswith(side)) / calls, side))
    print('\n%9s %7s of %s, instructions and entries a call' % ('', '', o.workload))
    for name, value in spent.most_common(o.top):
        print('%9.0f %7.2f %s' % (value / calls, entered[name] / calls, name[:110]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', required=True)
    p.add_argument('--workload', default='proxy200')
    p.add_argument('--server', default='strowger', choices=('strowger', 'relay'))
    p.add_argument('--transport', default='udp', help='or tcp, tls: of the calls of proxy200')
    p.add_argument('--rate', type=int, default=1000, help='calls a second of the emulated clock')
    p.add_argument('--workers', type=int, default=1, help='of Strowger; of several the kernel chooses')
    p.add_argument('--top', type=int, default=60, help='functions shown')
    p.add_argument('--lines', action='store_true', help='lines of the source, by where a block begins, not functions')
    p.add_argument('--guest', action='store_true', help=argparse.SUPPRESS)
    o = p.parse_args()
    measure(o) if o.guest else profile(o)


main()
