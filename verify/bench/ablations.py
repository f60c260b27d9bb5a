#!/usr/bin/env python3
"""What each mistake of a location service costs, on one table: small hash tables, a database in the path of messages,
expiry in sweeps. Kamailio with and without each, beside Strowger as it is.

    verify/bench/ablations.py --bin target/release/strowger [--users 200000] [--reps 3] [--record lab/record]

Each server has one process on CPU 0, the generator CPU 1, all on loopback; nobody has credentials. First --users
register (with a database fewer, as the table says: it does not take them faster). Then in turns:
  registration  CPU microseconds of a refresh, users in turn, and the response times
  call          CPU microseconds of a call to users in turn (INVITE 180 200 ACK BYE 200)
  expiry        all that were registered for a short time expire; meanwhile others are refreshed at a low rate, and the
                longest of their response times says how long the server was away
Strowger writes registrations to its disk, Kamailio without a database keeps them in memory alone.
"""
import argparse
import os
import shutil
import sqlite3
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import bench  # noqa: E402  (after the path is set)
import records  # noqa: E402
from harness import load, net, servers  # noqa: E402

DOMAIN = bench.DOMAIN
SCHEMA = '/usr/share/kamailio/db_sqlite'
# Seconds: how long those who expire were registered for, and how long the others are looked at.
SHORT, WATCHED = 60, 130
# Users who refresh while the others expire.
STAYING = 2000

VARIANTS = {
    'strowger': dict(what='Strowger'),
    'kamailio': dict(what='Kamailio, 2^17 buckets, in memory, sweep a minute', hash=17, timer=60),
    'kamailio-2^9': dict(what='the same with 2^9 buckets', hash=9, timer=60),
    'kamailio-fine': dict(what='the same with 2^17 buckets, sweep a second', hash=17, timer=1),
    'kamailio-write-through': dict(what='the same, each registration written to SQLite', hash=17, timer=60, db=1),
    'kamailio-db-only': dict(what='the same, SQLite asked for each', hash=17, timer=60, db=3),
}


class Ablations:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-ablations-')

    def server(self, name):
        variant = VARIANTS[name]
        if name == 'strowger':
            return servers.Strowger(self.o.bin, DOMAIN, 1, False, cpu=0)
        defines = ['PROXY', 'USERS 0', 'HASH %d' % variant['hash'], 'TIMER %d' % variant['timer']]
        if variant.get('db'):
            defines += ['DB_MODE %d' % variant['db'], 'DB_URL "sqlite://%s"' % self.database(name)]
        return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), defines, memory=2048,
                                extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=0, tcp=False)

    def database(self, name):
        """A new database with Kamailio's own tables, written ahead and without a wait for the disk: at its fastest."""
        path = os.path.join(self.dir, name + '.sqlite')
        if os.path.exists(path):
            os.unlink(path)
        with sqlite3.connect(path) as db:
            db.execute('PRAGMA journal_mode=WAL')
            for part in ('standard', 'usrloc'):
                with open(os.path.join(SCHEMA, part + '-create.sql')) as f:
                    db.executescript(f.read())
        db.close()
        return path

    def users(self, name):
        return self.o.users_in_database if 'db' in VARIANTS[name] else self.o.users

    # ------------------------------------------------------------ what the generator does
    def register(self, server, ip, users, rate, calls, expires, wait=True, port=5070):
        one = load.Load(self.o.bin, 'register_plain.xml', server.address, ip=ip, port=port, rate=rate, calls=calls,
                        rows=[(u,) for u in users], cpu=1, extra=['--grain', '0'],
                        keys=[('domain', DOMAIN), ('expires', str(expires)), ('callee_ip', ip)])
        if wait:
            one.wait(calls / rate + 60)
            one.stop()
        return one

    @staticmethod
    def spent(server, running, warm_up, seconds):
        """CPU microseconds of the server for each of these calls, in a window of a running generator."""
        time.sleep(warm_up)
        pids = server.process.pids()
        first, t0 = bench.cpu_ns(pids), time.time()
        time.sleep(seconds)
        last, t1 = bench.cpu_ns(pids), time.time()
        running.wait(90)
        running.stop()
        return (last - first) / 1e3 / max(running.done_at(t1) - running.done_at(t0), 1)

    def once(self, name):
        o, count, ip = self.o, self.users(name), net.fresh_ip()
        users = [bench.user(i) for i in range(count)]
        rate = o.rate if count == o.users else min(o.rate, 500)
        with self.server(name) as server:
            filled = self.fill(server, ip, users)
            found = dict(users=count, filled=filled)
            some = self.register(server, ip, users, rate, int(rate * (o.seconds + 4)), 3600, wait=False)
            found['registration_us'] = self.spent(server, some, 2, o.seconds)
            times = some.latency('response')
            found.update(registration_p50_us=times['p50'], registration_p99_us=times['p99'])
            rows = [(users[(i * 7919) % count], bench.user(5000000 + i)) for i in range(20000)]
            calls = load.Load(o.bin, 'caller.xml', server.address, callee='callee.xml', ip=ip, rate=500,
                              calls=int(500 * (o.seconds + 8)), rows=rows, cpu=1, keys=[('domain', DOMAIN)])
            found['call_us'] = self.spent(server, calls, 6, o.seconds)
            found['calls_failed'] = calls.totals()['failed']
            found.update(self.expiry(server, ip, users))
        return found

    def fill(self, server, ip, users):
        """All of them register as fast as this server takes them. How many did."""
        one = self.register(server, ip, users, self.o.fill if len(users) == self.o.users else 400, len(users), 3600)
        return one.totals()['ok']

    def expiry(self, server, ip, users):
        """The longest response time while nearly all of the users expire."""
        staying, going = users[:STAYING], users[STAYING:]
        self.register(server, ip, going, self.o.fill if len(users) == self.o.users else 400, len(going), SHORT)
        watch = self.register(server, ip, staying, 100, 100 * WATCHED, 3600, wait=False)
        pids = server.process.pids()
        first = bench.cpu_ns(pids)
        watch.wait(WATCHED + 60)
        watch.stop()
        times = watch.latency('response')
        return dict(expiry_cpu_ms=(bench.cpu_ns(pids) - first) / 1e6, expiry_max_ms=times['max'] / 1e3,
                    expiry_p99_ms=times['p99'] / 1e3, expiry_failed=watch.totals()['failed'])

    # ------------------------------------------------------------ all of them
    def run(self):
        results = {}
        for rep in range(self.o.reps):
            for name in self.o.variants if rep % 2 == 0 else self.o.variants[::-1]:
                why = self.missing(name)
                if why:
                    print('left out: %s (%s)' % (name, why))
                    continue
                found = self.once(name)
                results.setdefault(name, []).append(found)
                print('%d/%d %-24s %s' % (rep + 1, self.o.reps, name, ', '.join('%s %.4g' % p for p in found.items())), flush=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        return results

    @staticmethod
    def missing(name):
        if name.startswith('kamailio') and not servers.Kamailio.binary():
            return 'apt-get install kamailio'
        if 'db' in VARIANTS[name] and not os.path.exists(SCHEMA):
            return 'apt-get install kamailio-sqlite-modules'
        return None


FIELDS = (('users', 'users', '%d'), ('registration_us', 'registration, us of CPU', '%.1f'),
          ('registration_p99_us', 'response p99, us', '%.0f'), ('call_us', 'call, us of CPU', '%.1f'),
          ('expiry_max_ms', 'longest response while all expire, ms', '%.1f'), ('expiry_cpu_ms', 'CPU meanwhile, ms', '%.0f'))


def lines(results):
    yield '| | %s |' % ' | '.join(f[1] for f in FIELDS)
    yield '|---|%s' % ('---|' * len(FIELDS))
    for name in [n for n in VARIANTS if n in results]:
        runs = results[name]
        yield '| %s | %s |' % (VARIANTS[name]['what'], ' | '.join(records.spread(runs, key, form) for key, _, form in FIELDS))


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--variants', default=list(VARIANTS), type=lambda s: s.split(','), help=', '.join(VARIANTS))
    p.add_argument('--users', type=int, default=200000)
    p.add_argument('--users-in-database', type=int, default=10000, help='where each registration is written to one')
    p.add_argument('--fill', type=int, default=8000, help='registrations a second to begin with')
    p.add_argument('--rate', type=int, default=2000, help='registrations a second that are measured')
    p.add_argument('--seconds', type=float, default=5, help='length of a window')
    p.add_argument('--reps', type=int, default=3)
    p.add_argument('--record', help='a folder for table and figures, with machine, date and command')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    unknown = [v for v in o.variants if v not in VARIANTS]
    if unknown:
        p.error('--variants: %s: not one of %s' % (', '.join(unknown), ', '.join(VARIANTS)))
    results = Ablations(o).run()
    table = list(lines(results))
    print()
    print('\n'.join(table))
    print('\nminimum / median / maximum of %d runs' % o.reps)
    if o.record:
        records.write(o.record, 'ablations', 'What each mistake costs', o.reps, table,
                      [dict(server=n, **r) for n, runs in results.items() for r in runs])
    return 0


if __name__ == '__main__':
    sys.exit(main())
