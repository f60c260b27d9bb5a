#!/usr/bin/env python3
"""What a call costs: Strowger, a well-tuned Kamailio and a bare relay on the same calls.

    verify/bench/bench.py --bin target/release/strowger [--reps 3] [--rate 1000] [--seconds 5]

One run gives, for each workload and server, CPU microseconds and instructions (user and kernel) per
call and per message, and their ratios. Servers take turns within each repetition, so that whatever
else the machine does hits all of them. Judge by instructions, which repeat within a few percent;
CPU time is good only between servers of the same run.

How: the server has one worker on CPU 0, the generator (`strowger load`, or SIPp with --generator sipp) has
CPU 1, all on loopback. CPU time is the sum of
/proc/PID/task/*/schedstat over every process and thread of the server in one window; instructions
come from `perf stat -p` in a second window, because counters make context switches dearer. Where the
machine hides its counters they are counted in an emulated machine instead (emulated/run.sh). Calls of
a window are read from the generator's statistics. A window begins after a warm-up longer than servers keep
finished transactions. Idle work (timers) counts.

Messages are those that the server received and sent in the window, as the generator counts them: it is at the other
end of each. Servers differ: one that leaves out a 100 has fewer.

`make bench` measures a plain build (`make build`), as Kamailio is Debian's own build. `make build-profiled` makes a
program by a profile of these very calls, which takes less.

The workload `mixed` has the messages of 29 kinds of clients in seven flows, in an order that a seed gives
(mixed/README.md). The others have one kind of client, which favours a server that learns the shape of messages.

Needs sipp, kamailio, perf, taskset, a C compiler; what is missing is said, and what depends on it is
left out. Nothing is installed (`make bench` installs before it starts this).
"""
import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

from emulated import machines  # noqa: E402  (after the path is set)
from harness import load, net, servers, sipp  # noqa: E402
from mixed import scenario as mixed  # noqa: E402
from witness import witness  # noqa: E402

DOMAIN = 'bench.test'
CALLEES = 1000
CALLERS = 50000
WARM_UP = 6.0
# Calls go on that long after the last window.
TAIL = 4.0

# What makes the calls, and what the server is told to challenge.
WORKLOADS = {
    'proxy200': dict(scenario='caller.xml', users=0, challenge=[], kamailio='PROXY',
                     what='INVITE 100 180 200 ACK BYE 200, callees registered'),
    'proxy200-digest': dict(scenario='caller_digest.xml', users=100000, challenge=['INVITE', 'BYE'],
                            kamailio='DIGEST', what='the same with digest on INVITE and BYE, 100,000 credentials'),
    'register-digest': dict(scenario='register.xml', users=100000, challenge=['REGISTER'],
                            kamailio='REGISTER', what='REGISTER 401 REGISTER 200 over 100,000 users'),
    'mixed': dict(scenario='', users=0, challenge=[], kamailio='PROXY', defines=['MIXED'],
                  what='29 kinds of clients: calls, re-INVITE, INFO, CANCEL, busy, MESSAGE, REGISTER'),
    # Asked for by its name.
    'stateless': dict(scenario='caller.xml', users=0, challenge=[], kamailio='STATELESS',
                      config='[proxy]\nmode = "stateless"\n',
                      what='the call of proxy200 without transactions (RFC 3261 section 16.11), so without a 100'),
    # Asked for by its name; balance.py adds what a balancer costs in time. It remembers calls that are over for 32 s.
    'balance': dict(scenario='caller.xml', users=0, challenge=[], kamailio='', warm_up=35.0,
                    what='the call of proxy200 through `strowger balance`, or the dispatcher of Kamailio (Call-ID hash), '
                         'to two callees'),
}


def user(i):
    return 'b%d' % (1000000 + i)


def password(i):
    return 'p%d' % (1000000 + i)


def credentials(i):
    return '[authentication username=%s password=%s]' % (user(i), password(i))


def rows(workload, n):
    """Injection lines: callee, caller, credentials; or user, credentials."""
    if workload == 'register-digest':
        return [(user(i), credentials(i)) for i in range(n)]
    digest = WORKLOADS[workload]['users'] > 0
    # Callers follow the callees' thousand, so nobody calls himself.
    return [(user(i % CALLEES), user(CALLEES + i)) + ((credentials(CALLEES + i),) if digest else ())
            for i in range(CALLERS)]


# ---------------------------------------------------------------- servers
class Relay:
    """The bare relay between the two sides of a generator."""

    def __init__(self, program, caller, callee, cpu):
        self.ip, self.port, self.cpu = net.fresh_ip(), 5060, cpu
        self.cmd = [program, self.ip, '5060', caller[0], str(caller[1]), callee[0], str(callee[1])]

    @property
    def address(self):
        return (self.ip, self.port)

    def __enter__(self):
        self.process = servers.Process((['taskset', '-c', str(self.cpu)] if self.cpu is not None else []) + self.cmd)
        net.poll('the relay is ready', 5, lambda: self.process.said('ready'))
        return self

    def __exit__(self, *_):
        self.process.stop()


class Bench:
    """One run: options, scratch folder, results."""

    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-bench-')
        self.results = []
        two = (os.cpu_count() or 1) >= 2 and shutil.which('taskset')
        self.server_cpu, self.load_cpu = (0, 1) if two else (None, None)
        self.perf = bool(shutil.which('perf')) and self.perf_works()
        self.data = None
        # Of Strowger.
        self.workers, self.steering = 1, 'auto'
        # Options of `strowger load`.
        self.extra = []

    @staticmethod
    def perf_works():
        done = subprocess.run(['perf', 'stat', '-x', ';', '-e', 'instructions:u', 'true'],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return done.returncode == 0 and 'not supported' not in done.stderr and 'not counted' not in done.stderr

    def relay_program(self):
        program = os.path.join(self.dir, 'relay')
        subprocess.run([shutil.which('cc') or 'gcc', '-O2', '-Wall', '-o', program, os.path.join(HERE, 'relay.c')], check=True)
        return program

    def strowger(self, name, workload):
        w = WORKLOADS[workload]
        config = ''.join(line + '\n' for line in getattr(self.o, 'config', ()))
        config += '' if name == 'strowger' else 'udp_segmentation = true\n'
        config += w.get('config', '') + '[auth]\nin_dialog = true\nchallenge = [%s]\n' % ', '.join('"%s"' % m for m in w['challenge'])
        if w['users'] and not self.data:
            # Importing 100,000 users once; each run gets a copy.
            self.data = os.path.join(self.dir, 'data')
            os.makedirs(self.data)
            servers.import_users(self.o.bin, [(user(i), password(i)) for i in range(w['users'])], self.data, DOMAIN)
        return servers.Strowger(self.o.bin, DOMAIN, self.workers, bool(w['challenge']), config=config,
                                data=self.data if w['users'] else None, cpu=self.server_cpu, steering=self.steering)

    def kamailio(self, workload):
        w = WORKLOADS[workload]
        defines = [w['kamailio'], 'USERS %d' % w['users']] + w.get('defines', [])
        return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), defines, memory=2048,
                                extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=self.server_cpu, tcp=False)

    def balancer(self, name, nodes):
        """Strowger's, or Kamailio's, in front of these."""
        if name in ('strowger', 'busy'):
            looks = 'busy_poll = "%s"\n' % self.o.busy_poll if name == 'busy' else ''
            # Kamailio does not probe either.
            return servers.Balancer(self.o.bin, ['%s:%d' % n for n in nodes], self.workers, cpu=self.server_cpu,
                                    steering=self.steering, config=looks + '[balance]\nprobe_interval = "0s"\n')
        path = os.path.join(self.dir, 'dispatcher.list')
        with open(path, 'w') as f:
            f.writelines('1 sip:%s:%d\n' % n for n in nodes)
        return servers.Kamailio(os.path.join(HERE, 'kamailio_dispatch.cfg'), ['LIST "%s"' % path], memory=2048,
                                extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=self.server_cpu, tcp=False)

    # ------------------------------------------------------------ one measurement
    def measure(self, name, workload):
        w = WORKLOADS[workload]
        caller, callee = (net.fresh_ip(), 5060), (net.fresh_ip(), 5060)
        if self.o.generator == 'load':
            # One process is both ends.
            caller = (callee[0], 5061)
        balancing, second = workload == 'balance', (net.fresh_ip(), 5060)
        if name == 'relay':
            server = Relay(self.relay, caller, callee, self.server_cpu)
        elif balancing:
            server = self.balancer(name, [callee, second])
        else:
            server = self.strowger(name, workload) if name in ('strowger', 'together') else self.kamailio(workload)
        calling, answering = workload not in ('register-digest', 'mixed'), []
        if workload == 'mixed':
            self.mixed = mixed.Mixed(callee[0], domain=DOMAIN)
        with server:
            try:
                if calling:
                    if self.o.generator == 'sipp':
                        answering.append(sipp.Sipp('callee.xml', ip=callee[0], cpu=self.load_cpu))
                    if balancing and name != 'relay':
                        answering.append(load.Load(self.o.bin, 'callee.xml', ip=second[0], cpu=self.load_cpu))
                    elif name != 'relay':
                        net.register_block(server.address, [user(i) for i in range(CALLEES)], *callee, DOMAIN)
                if workload == 'mixed':
                    self.mixed.register(server.address)
                return self.load(name, workload, w, server, caller, answering)
            finally:
                for one in answering:
                    one.stop()

    def generator(self, workload, w, server, total, caller):
        """What makes the calls of a workload, and answers them if it is `strowger load`."""
        common = dict(ip=caller[0], rate=self.o.rate, calls=total, cpu=self.load_cpu, keys=[('domain', DOMAIN)])
        if workload == 'mixed':
            scenario, callee = self.mixed.scenarios(self.dir)
            return load.Load(self.o.bin, scenario, server.address, callee=callee, rows=self.mixed.rows(total),
                             extra=self.extra + self.mixed.options(), **common)
        common['rows'] = rows(workload, w['users'])
        if self.o.generator == 'sipp':
            return sipp.Sipp(w['scenario'], server.address, limit=20000, **common)
        callee = None if workload == 'register-digest' else 'callee.xml'
        return load.Load(self.o.bin, w['scenario'], server.address, callee=callee, extra=self.extra, **common)

    def load(self, name, workload, w, server, caller, answering):
        seconds, rate, warm_up = self.o.seconds, self.o.rate, w.get('warm_up', WARM_UP)
        total = int(rate * (warm_up + (2 if self.perf else 1) * seconds + TAIL))
        generator = self.generator(workload, w, server, total, caller)
        try:
            time.sleep(warm_up)
            pids, others = server.process.pids(), generator.process.pids()
            first, before, t0 = cpu_ns(pids), cpu_ns(others), time.time()
            time.sleep(seconds)
            last, after, t1 = cpu_ns(pids), cpu_ns(others), time.time()
            counts, p0, p1 = self.count(pids, seconds) if self.perf else ({}, 0, 0)
            status = generator.wait(60)
        finally:
            generator.stop()
        sums = generator.totals()
        calls = generator.done_at(t1) - generator.done_at(t0)
        for one in answering:
            one.stop()
        messages = sum(one.messages(t0, t1) for one in [generator] + answering) / calls
        result = dict(server=name, workload=workload, rate=rate, messages=messages, status=status, **sums,
                      cpu_us_call=(last - first) / 1e3 / calls, generator_us_call=(after - before) / 1e3 / calls)
        if counts:
            counted = generator.done_at(p1) - generator.done_at(p0)
            result.update(user_call=counts['instructions:u'] / counted, kernel_call=counts['instructions:k'] / counted)
        # 1: callees found something wrong, where their scenarios are `strowger load`'s.
        if sums['failed'] or sums['ok'] < total or status == 1:
            result['trouble'] = '%d of %d calls succeeded; %s' % (sums['ok'], total, generator.errors(1)[:300])
        return result

    def count(self, pids, seconds):
        """Instructions of these processes over a window of their own."""
        out = os.path.join(self.dir, 'perf.txt')
        t0 = time.time()
        subprocess.run(['perf', 'stat', '-x', ';', '-o', out, '-e', 'instructions:u,instructions:k', '-p',
                        ','.join(map(str, pids)), '--', 'sleep', '%g' % seconds], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        t1 = time.time()
        with open(out) as f:
            found = dict((m[2], float(m[1])) for m in re.finditer(r'^(\d+);[^;]*;(instructions:[uk])', f.read(), re.M))
        return (found, t0, t1) if len(found) == 2 else ({}, t0, t1)

    # ------------------------------------------------------------ all of them
    def run(self):
        names = [n for n in self.o.servers if self.available(n)]
        if 'relay' in names:
            self.relay = self.relay_program()
        for rep in range(self.o.reps):
            for workload in self.o.workloads:
                for name in names if rep % 2 == 0 else names[::-1]:
                    if not asked(name, workload):
                        continue
                    result = self.measure(name, workload)
                    self.results.append(result)
                    print('%d/%d %-16s %-9s %s' % (rep + 1, self.o.reps, workload, name, line(result)), flush=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def available(self, name):
        need = {'strowger': self.o.bin, 'together': self.o.bin, 'kamailio': servers.Kamailio.binary(), 'relay': shutil.which('cc') or shutil.which('gcc')}[name]
        if need and os.path.exists(need):
            return True
        print('left out: %s (%s)' % (name, {
            'strowger': 'no binary at %s: make build' % self.o.bin,
            'together': 'no binary at %s: make build' % self.o.bin,
            'kamailio': 'not installed: apt-get install kamailio', 'relay': 'no C compiler: apt-get install gcc'}[name]))
        return False


def add_config(parser):
    """The option by which a mechanism of Strowger's is switched off for a measurement."""
    parser.add_argument('--config', action='append', default=[], metavar='LINE',
                        help="a line of Strowger's configuration, such as 'timers.trying = \"200ms\"'; may be repeated")


def asked(server, workload):
    """The relay knows no digest, so it is measured with one workload."""
    return server != 'relay' or workload in ('proxy200', 'balance', 'stateless')


def cpu_ns(pids):
    """Nanoseconds on a CPU of every thread of these processes so far."""
    total = 0
    for pid in pids:
        try:
            for task in os.listdir('/proc/%d/task' % pid):
                with open('/proc/%d/task/%s/schedstat' % (pid, task)) as f:
                    total += int(f.read().split()[0])
        except OSError:
            continue
    return total


def line(r):
    text = '%7.1f us/call %6.2f us/message, %5.2f messages/call' % (
        r['cpu_us_call'], r['cpu_us_call'] / r['messages'], r['messages'])
    if 'user_call' in r:
        both = r['user_call'] + r['kernel_call']
        text += '  %6.1f k + %5.1f k instructions/call, %5.1f k/message' % (
            r['user_call'] / 1e3, r['kernel_call'] / 1e3, both / 1e3 / r['messages'])
    return text + ('  TROUBLE: ' + r['trouble'] if 'trouble' in r else '')


def summary(results):
    """Medians by workload and server, and ratios to Kamailio and to the relay."""
    groups = {}
    for r in results:
        groups.setdefault((r['workload'], r['server']), []).append(r)
    med = {}
    for key, rs in groups.items():
        median = lambda field: statistics.median(r[field] for r in rs) if all(field in r for r in rs) else None
        user_part, kernel_part = median('user_call'), median('kernel_call')
        med[key] = dict(
            workload=key[0], server=key[1], runs=len(rs), messages=median('messages'), cpu_us_call=median('cpu_us_call'),
            user_call=user_part, kernel_call=kernel_part,
            instructions_call=user_part + kernel_part if user_part is not None else None,
            ok=sum(r['ok'] for r in rs), created=sum(r['created'] for r in rs),
            retransmissions=sum(r['retransmissions'] for r in rs))
    for m in med.values():
        m['cpu_us_message'] = m['cpu_us_call'] / m['messages']
        m['instructions_message'] = m['instructions_call'] / m['messages'] if m['instructions_call'] else None
        for other in ('kamailio', 'relay'):
            base = med.get((m['workload'], other))
            if other == 'relay' and not base:
                base = med.get(('proxy200', 'relay'))
                if base:
                    # The relay knows no digest: its cost of a message times this workload's messages.
                    scale = m['messages'] / base['messages']
                    base = dict(cpu_us_call=base['cpu_us_call'] * scale, instructions_call=(base['instructions_call'] or 0) * scale)
            if base:
                m['cpu_ratio_to_' + other] = m['cpu_us_call'] / base['cpu_us_call']
                if m['instructions_call'] and base.get('instructions_call'):
                    m['instructions_ratio_to_' + other] = m['instructions_call'] / base['instructions_call']
    return list(med.values())


def table(rows_):
    k = lambda v: '-' if v is None else '%.1f' % (v / 1e3)
    ratio = lambda m, key: '%.2f' % m[key] if key in m else '-'
    head = ('workload', 'server', 'calls ok', 'msg/call', 'us/call', 'us/msg', 'k-instr/call user', 'kernel', 'both', 'k-instr/msg',
            'instr : kamailio', 'instr : relay', 'time : kamailio')
    body = [(m['workload'], m['server'], '%d/%d' % (m['ok'], m['created']), '%.2f' % m['messages'], '%.1f' % m['cpu_us_call'], '%.2f' % m['cpu_us_message'],
             k(m['user_call']), k(m['kernel_call']), k(m['instructions_call']), k(m['instructions_message']),
             ratio(m, 'instructions_ratio_to_kamailio'), ratio(m, 'instructions_ratio_to_relay'), ratio(m, 'cpu_ratio_to_kamailio'))
            for m in rows_]
    widths = [max(len(r[i]) for r in [head] + body) for i in range(len(head))]
    for r in [head] + body:
        print('  '.join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))).rstrip())


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--servers', default='strowger,kamailio,relay', type=lambda s: s.split(','),
                   help='together: Strowger with udp_segmentation = true')
    p.add_argument('--workloads', default='proxy200,proxy200-digest,register-digest,mixed', type=lambda s: s.split(','),
                   help='or stateless, balance, which are others')
    p.add_argument('--rate', type=int, default=1000, help='calls a second')
    p.add_argument('--seconds', type=float, default=5, help='length of each of the two windows')
    p.add_argument('--reps', type=int, default=3)
    add_config(p)
    p.add_argument('--generator', default='load', choices=('load', 'sipp'), help='what makes the calls')
    p.add_argument('--count', default='auto', choices=('auto', 'perf', 'emulated', 'no'),
                   help='how instructions are counted: by perf here, in an emulated machine (slow), not at all; '
                        'auto: by perf where it can count, else emulated')
    p.add_argument('--out', default='target/bench.json')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    missing = [(t, why) for t, why in (('sipp', 'apt-get install sip-tester'), ('perf', 'apt-get install linux-perf'),
                                       ('taskset', 'apt-get install util-linux')) if not shutil.which(t)]
    for tool, why in missing:
        print('missing: %s (%s)' % (tool, why))
    if o.generator == 'sipp' and not shutil.which('sipp'):
        return 2
    bench = Bench(o)
    if not bench.perf:
        print('perf cannot count instructions here (not installed, no counters, or perf_event_paranoid)')
    bench.perf = bench.perf and o.count in ('auto', 'perf')
    emulated = o.count == 'emulated' or (o.count == 'auto' and not bench.perf)
    for name in o.workloads:
        print('%-16s %s' % (name, WORKLOADS[name]['what']))
    bench.run()
    rows_ = summary(bench.results)
    if rows_:
        print()
        table(rows_)
        print('\nmedians of %d runs at %d/s, one worker; relay figures for digest workloads are its cost of a message times theirs'
              % (o.reps, o.rate))
    counts = machines.count(o) if emulated else []
    if counts:
        print()
        machines.table(counts)
        print('\ninstructions, user and kernel together, counted in an emulated machine at %d/s, one worker' % o.rate)
    os.makedirs(os.path.dirname(os.path.abspath(o.out)), exist_ok=True)
    with open(o.out, 'w') as f:
        json.dump(dict(machine=platform.uname()._asdict(), cpus=os.cpu_count(), load=os.getloadavg(), options={
            k: v for k, v in vars(o).items() if k != 'bin'}, runs=bench.results, medians=rows_, emulated=counts), f, indent=1)
    print('written: ' + o.out)
    agreed = True
    if shutil.which('sipp') and o.reps:
        # A generator of one's own needs somebody else to say the same.
        with tempfile.TemporaryDirectory() as directory:
            agreed = witness(o.bin, directory)
    trouble = any('trouble' in r for r in bench.results + counts) or (emulated and not counts)
    return 0 if agreed and not trouble else 1


if __name__ == '__main__':
    sys.exit(main())
