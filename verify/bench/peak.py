#!/usr/bin/env python3
"""How many users a server carries on one core: Strowger with one worker and Kamailio, the same population.

    verify/bench/peak.py --bin target/release/strowger [--users 40000] [--compress 60] [--html peak.html]

`strowger load --users N --find-peak` against one after the other: users who register, call each other, leave
messages and give up, all with digest (docs/guide/load-capacity.md). The server has CPU 0, the generator CPU 1, all on
loopback.
Kamailio has verify/bench/kamailio.cfg, our best for this work; it keeps everything in memory, Strowger writes
registrations to its disk. At the end both side by side, `strowger load compare`, with the papers' figures, in one page.

With a peak that is not confirmed the exit status is 1: there is a page, but not that figure.

The time is compressed: the peak is the load of `compress` times as many users, but not their memory.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)

import verdicts  # noqa: E402  (after the path is set)
from harness import net, servers  # noqa: E402

DOMAIN = 'bench.test'
FIRST = 1000000


class Peak:
    def __init__(self, options):
        self.o = options
        self.dir = tempfile.mkdtemp(prefix='strowger-peak-')
        two = (os.cpu_count() or 1) >= 2 and shutil.which('taskset')
        self.cpus = (0, 1) if two else (None, None)

    def strowger(self, mailbox):
        users = [('u%d' % (FIRST + i), 'p%d' % (FIRST + i)) for i in range(self.o.most)]
        config = '[voicemail]\ntarget = "%s"\non = ["busy"]\n' % mailbox
        return servers.Strowger(self.o.bin, DOMAIN, 1, True, config=config, users=users, cpu=self.cpus[0])

    def kamailio(self, mailbox):
        defines = ['USERS_OF_LOAD', 'USERS %d' % self.o.most, 'PREFIX "u"', 'MAILBOX "%s"' % mailbox]
        return servers.Kamailio(os.path.join(HERE, 'kamailio.cfg'), defines, memory=3000,
                                extra=['-x', 'tlsf', '-X', 'fm', '-b', str(4 << 20)], cpu=self.cpus[0], tcp=False)

    def measure(self, name):
        """The file with the result, and whether the search came to an end."""
        box = '%s:5090' % net.fresh_ip()
        server = getattr(self, name)('sip:voicemail@' + box)
        result = os.path.join(self.o.keep or self.dir, name + '.json')
        print('%s, one process on one core:' % name, flush=True)
        with server:
            cmd = ['taskset', '-c', str(self.cpus[1])] if self.cpus[1] is not None else []
            if os.path.exists(result):
                os.unlink(result)
            cmd += [self.o.bin, 'load', '--users', str(self.o.users), '--domain', DOMAIN, '--compress', str(self.o.compress),
                    '--workers', '1']
            cmd += ['--measure', self.o.trial, '--with', 'cool_down=10'] if self.o.fixed else \
                ['--find-peak', '--trial', self.o.trial, '--resolution', str(self.o.resolution)]
            cmd += ['--mailbox', box, '-i', net.fresh_ip(), '--json', result,
                    '%s:%d' % server.address]
            status = subprocess.run(cmd + self.o.extra.split()).returncode
        # 1: not to the standard, which is a result of a single run; of a search it is shown and judged. A run that is
        # VOID or none says nothing.
        return result if status in (0, 1) and os.path.exists(result) else None, status

    def run(self):
        found, statuses = {}, {}
        names = ['strowger'] + (['kamailio'] if servers.Kamailio.binary() else [])
        if len(names) == 1:
            print('left out: Kamailio (apt-get install kamailio)')
        try:
            for name in names:
                found[name], status = self.measure(name)
                if not found[name]:
                    print('%s: no result (status %d)' % (name, status))
                    return 1
                statuses[name] = 0 if self.o.fixed else status
            code = 0
            if len(found) == 2:
                # By their names alone: where they were says nothing on a page that is kept.
                folder = os.path.dirname(found['strowger'])
                cmd = [self.o.bin, 'load', 'compare'] + [os.path.basename(found[name]) for name in names]
                cmd += ['--html', os.path.abspath(self.o.html)] if self.o.html else []
                code = subprocess.run(cmd, cwd=folder).returncode
            return code if verdicts.tell('the peaks', verdicts.peak(statuses)) else code or 1
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--bin', default='target/release/strowger', help='the strowger binary')
    p.add_argument('--users', type=int, default=40000, help='number of users to begin with')
    p.add_argument('--most', type=int, default=1000000, help='users that the servers know: more than any trial has')
    p.add_argument('--compress', type=float, default=60)
    p.add_argument('--fixed', action='store_true', help='no search: one run of each with as many users')
    p.add_argument('--trial', default='10s', help='length of the measured window')
    p.add_argument('--resolution', type=float, default=10, help='per cent')
    p.add_argument('--html', help='write the comparison here')
    p.add_argument('--keep', help='a folder for the results')
    p.add_argument('--extra', default='', help='further options of strowger load, separated by blanks')
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    if o.users > o.most:
        p.error('--most %d: fewer than --users' % o.most)
    try:
        return Peak(o).run()
    except KeyboardInterrupt:
        return 130


if __name__ == '__main__':
    sys.exit(main())
