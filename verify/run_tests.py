#!/usr/bin/env python3
"""Build all tests of the workspace and run them, several programs at a time.

    verify/run_tests.py [--locked] [--only live|unit|quick] [--waiting NAME=COMMAND]... [--computing NAME=COMMAND]...

cargo runs test programs one after the other, although most live tests only wait. Here they run in three lanes:

- waiting: live tests, those of the shell, and the commands of --waiting. A few at a time.
- measuring: tests of time, lateness and load. One at a time, when the waiting ones have ended.
- computing: all others, doc-tests, and the commands of --computing. One at a time beside the other lanes, with the
  lowest priority, so that they take only what those leave.

The output of each program appears whole when it ends, and stays in target/test-logs. `--only quick` runs the unit tests
of libraries and programs without the simulator, two at a time, and shows the output of those that failed. Programs that
failed are named at the end, and the exit status is 1 then. A signal (Ctrl-C) ends all that runs. The arguments of a COMMAND are divided as
in a shell; {bin} stands for the debug binary that was built.
"""
import argparse
import glob
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CARGO = os.environ.get('CARGO', 'cargo')
# Test programs of verify/live that measure, and others that compare times with a clock.
MEASURING = {'live/' + name for name in (
    'lab', 'load', 'load_honesty', 'load_search', 'load_sipp', 'load_stops', 'mixed', 'overload', 'room', 'sieve', 'users')}
MEASURING_PACKAGES = {'worker-runtime'}
# Folders of packages whose tests wait for threads, sockets and files, as verify/live does.
CLOCKED = ('shell/', 'load/runner', 'lab/runner')
# These take longest, so they begin first.
LONGEST = ['live/balance_losses', 'live/torture', 'live/balance', 'live/crash_kill', 'live/streams', 'sip-node', 'store', 'load']
# Live tests once more, with two workers that hand over what the kernel could steer.
RINGS = ['live/proxy', 'live/clauses']
WAITING_AT_A_TIME = 4
# Seconds without an ended program before a line says what runs.
SILENCE = 60


class Job:
    """A program to run: where, with which environment, and what came of it."""

    def __init__(self, name, lane, command, folder=ROOT, env=None, again=None):
        self.name, self.lane, self.command, self.folder = name, lane, command, folder
        self.env, self.again = env or {}, again or shlex.join(command)
        self.process = self.log = None
        self.low = lane == 'computing'
        self.began = 0.0

    def start(self, logs):
        self.log = os.path.join(logs, re.sub(r'[^\w.-]+', '-', self.name) + '.log')
        low = self.low

        def apart():
            # A group of its own, so that all of it can be ended. Not a session: priorities count within one.
            os.setpgid(0, 0)
            if low:
                os.nice(19)

        self.began = time.monotonic()
        with open(self.log, 'wb') as out:
            how = dict(env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                       preexec_fn=apart)
            try:
                self.process = subprocess.Popen(self.command, cwd=self.folder, **how)
            except (OSError, subprocess.SubprocessError) as error:
                # The job fails like any other.
                self.process = subprocess.Popen(['sh', '-c', 'echo "$0"; exit 127', 'cannot start: %s' % error], **how)

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def text(self):
        with open(self.log, errors='replace') as file:
            return file.read()

    def failed_tests(self):
        """The names of tests that failed, as the test harness writes them."""
        return re.findall(r'^test (\S+) \.\.\. FAILED$', self.text(), re.M)


def say(*words):
    print(*words, flush=True)


def build(only, options):
    """Build the test programs and the binary at once, so that their dependencies have the same features. The answer is
    cargo's messages on executables; None if it failed."""
    command = {
        'live': ['build', '-p', 'live', '-p', 'strowger', '--bins', '--tests'],
        'quick': ['test', '--no-run', '--workspace', '--exclude', 'live', '--exclude', 'simulator', '--lib', '--bins'],
    }.get(only, ['build', '--workspace', '--bins', '--tests'])
    command = [CARGO] + command + ['--message-format=json-render-diagnostics'] + options
    say(shlex.join(command))
    cargo = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        messages = [json.loads(line) for line in cargo.stdout if line.startswith('{')]
    except BaseException:
        cargo.send_signal(signal.SIGINT)
        cargo.wait()
        raise
    if cargo.wait() != 0:
        return None
    return [m for m in messages if m.get('reason') == 'compiler-artifact' and m.get('executable')]


def test_jobs(messages, binary, only):
    """The jobs of the test programs, of all or `only` some lanes."""
    jobs = {}
    for message in messages:
        if not message['profile']['test']:
            continue
        folder = os.path.dirname(message['manifest_path'])
        package, target = package_of(folder), message['target']
        kind = target['kind'][0]
        name = {'test': package + '/' + target['name'], 'example': package + '/example ' + target['name'],
                'bin': package + '/bin ' + target['name']}.get(kind, package)
        choice = {'test': ['--test', target['name']], 'example': ['--example', target['name']], 'bin': ['--bins']}
        again = shlex.join(['cargo', 'test', '-p', package] + choice.get(kind, ['--lib']))
        live = package == 'live'
        measuring = name in MEASURING or package in MEASURING_PACKAGES
        clocked = live or os.path.relpath(folder, ROOT).startswith(CLOCKED)
        lane = 'measuring' if measuring else 'waiting' if clocked else 'computing'
        if only and live != (only == 'live'):
            continue
        env = {'CARGO_MANIFEST_DIR': folder, 'STROWGER_BIN': binary}
        jobs[name] = Job(name, lane, [message['executable']], folder, env, again)
    for name in RINGS:
        if name in jobs:
            ring = {**jobs[name].env, 'STROWGER_LIVE_STEERING': 'ring'}
            jobs[name + ', ring'] = Job(name + ', ring', jobs[name].lane, jobs[name].command, jobs[name].folder, ring,
                                        'STROWGER_LIVE_STEERING=ring ' + jobs[name].again)
    return sorted(jobs.values(), key=lambda job: LONGEST.index(job.name) if job.name in LONGEST else len(LONGEST))


def doc_packages(messages):
    """The packages whose comments have examples: rustdoc takes a second for each one that has none."""
    found = set()
    for folder in {os.path.dirname(message['manifest_path']) for message in messages}:
        for path in glob.glob(os.path.join(folder, 'src', '**', '*.rs'), recursive=True):
            with open(path) as file:
                fences = re.findall(r'^ *//[/!] *```(\w*)', file.read(), re.M)
            if any(opening in ('', 'rust', 'no_run', 'should_panic', 'compile_fail') for opening in fences[::2]):
                found.add(package_of(folder))
    return sorted(found)


def package_of(folder):
    with open(os.path.join(folder, 'Cargo.toml')) as file:
        return re.search(r'^name = "(.*)"', file.read(), re.M).group(1)


class Runner:
    """Runs jobs in their lanes, and keeps what failed."""

    def __init__(self, jobs, logs, quick):
        self.left, self.logs, self.quick = list(jobs), logs, quick
        self.running, self.failed, self.spoke = [], [], time.monotonic()
        self.began, self.count = time.monotonic(), len(self.left)

    def may_start(self, lane):
        if self.quick:
            return len(self.running) < 2
        in_lane = sum(1 for job in self.running if job.lane == lane)
        if lane == 'waiting':
            return in_lane < WAITING_AT_A_TIME
        waits = any(job.lane == 'waiting' for job in self.left + self.running)
        return in_lane == 0 and (lane == 'computing' or not waits)

    def run(self):
        while self.left or self.running:
            for job in list(self.left):
                if self.may_start(job.lane):
                    self.left.remove(job)
                    self.running.append(job)
                    job.start(self.logs)
            for job in list(self.running):
                if job.process.poll() is not None:
                    self.running.remove(job)
                    self.ended(job)
            now = time.monotonic()
            if now - self.spoke > SILENCE and self.running:
                self.spoke = now
                say('... %d s; running: %s' % (now - self.began, ', '.join(job.name for job in self.running)))
            time.sleep(0.05)

    def ended(self, job):
        # Processes that a program leaves behind would disturb the others.
        job.signal(signal.SIGKILL)
        code, took = job.process.returncode, time.monotonic() - job.began
        how = 'ok' if code == 0 else 'FAILED, exit status %d' % code if code > 0 else 'FAILED, signal %d' % -code
        if self.quick and code == 0:
            say('%s: ok, %.1f s' % (job.name, took))
        else:
            say('\n--- %s: %s, %.1f s' % (job.name, how, took))
            say(job.text().strip('\n'))
        if code != 0:
            self.failed.append(job)
        self.spoke = time.monotonic()

    def stop(self):
        """Ends all running jobs."""
        # The last may not have started.
        running = [job for job in self.running if job.process is not None]
        say('\nstopped while these were running: %s' % ', '.join(job.name for job in running))
        # As Ctrl-C does, so that interop removes what it made.
        for job in running:
            job.signal(signal.SIGINT)
        end = time.monotonic() + 10
        for job in running:
            try:
                job.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            job.signal(signal.SIGKILL)
            job.process.wait()

    def verdict(self):
        took = time.monotonic() - self.began
        say()
        for job in self.failed:
            say('FAILED: %s (%s)' % (job.name, job.again))
            for test in job.failed_tests():
                say('    %s' % test)
        say('%d programs in %.0f s, %d failed' % (self.count, took, len(self.failed)))
        return 1 if self.failed else 0


def stopped(number, _frame):
    raise SystemExit(128 + number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--locked', action='store_true', help='as cargo has it')
    parser.add_argument('--only', choices=('live', 'unit', 'quick'), help='the live tests, all others, or the quick ones')
    for lane in ('waiting', 'computing'):
        parser.add_argument('--' + lane, action='append', default=[], metavar='NAME=COMMAND')
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stopped)
    locked = ['--locked'] if args.locked else []
    messages = build(args.only, locked)
    if messages is None:
        return 1
    # Without it for `quick`, whose programs need none.
    binary = next((m['executable'] for m in messages if m['target']['name'] == 'strowger' and not m['profile']['test']), '')
    jobs = []
    for lane in ('waiting', 'computing'):
        for one in getattr(args, lane):
            name, _, command = one.partition('=')
            jobs.append(Job(name, lane, [word.replace('{bin}', binary) for word in shlex.split(command)]))
    jobs += test_jobs(messages, binary, args.only)
    documented = [] if args.only in ('live', 'quick') else doc_packages(messages)
    if documented:
        # All of the workspace is chosen first, for the features of dependencies.
        jobs.append(Job('doc-tests', 'computing', [CARGO, 'test', '--doc'] + locked + [
            word for package in documented for word in ('-p', package)]))
    logs = os.path.join(ROOT, os.environ.get('CARGO_TARGET_DIR') or 'target', 'test-logs')
    os.makedirs(logs, exist_ok=True)
    runner = Runner(jobs, logs, args.only == 'quick')
    try:
        runner.run()
    except BaseException:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        runner.stop()
        raise
    return runner.verdict()


if __name__ == '__main__':
    sys.exit(main())
