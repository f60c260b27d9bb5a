#!/usr/bin/env python3
"""Whether the verdicts of `strowger lab` are right where the truth is known: five experiments of a build against
itself, and one against a build that is 5 % slower on purpose. Says how many verdicts were right; exit status 1 if one
was wrong or missing."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What an experiment of equal systems is to say, and one whose claim is false.
SILENT, FOUND = "NO DIFFERENCE SHOWN", "FAIL"
# Seconds that one experiment may take.
LONGEST = 1_800
# A try of everything, not of the verdicts: few short runs, also on a machine that does other things.
SHORT = ["--set", "repetitions=7", "--set", "warm_up=1s", "--set", "measure=3s"]
SHORT += ["--set", "workload.rate=100", "--set", 'workload.options=["--lateness", "60000"]']


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, type=Path, help="the program to run")
    parser.add_argument("--out", required=True, type=Path, help="where results go; with those of before, what is missing is run")
    parser.add_argument("--seeds", type=int, default=5, help="experiments of a build against itself [default: 5]")
    parser.add_argument("--short", action="store_true", help="few short runs, to try it")
    parser.add_argument("--share-machine", action="store_true", help="run beside other experiments, to try it")
    return parser.parse_args()


def library(out):
    """Builds what makes a program slower."""
    path = out / "libslower.so"
    rustc = os.environ.get("RUSTC", shutil.which("rustc") or "rustc")
    command = [rustc, "-O", "--edition", "2024", "--crate-type", "cdylib", "-o", path, HERE / "slower.rs"]
    subprocess.run(command, check=True)
    return path


def outcome(args, name, definition, more):
    """Runs an experiment; its verdict, claim and reason."""
    command = [args.bin, "lab", "run", HERE / definition, "--out", args.out / name, "--output", "json", *more]
    command += SHORT * args.short + ["--share-machine"] * args.share_machine
    # A session of its own: Ctrl-C reaches it once, from here, and it ends the servers that it started.
    running = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        printed, _ = running.communicate(timeout=LONGEST)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        running.send_signal(signal.SIGINT)
        running.communicate()
        raise
    if running.returncode == 2:
        return "no verdict", None, "it did not run"
    found = json.loads(printed)
    return found["verdict"], next(iter(found["claims"]), None), found["reason"]


def line(name, expected, verdict, claim, seconds):
    """A row for people."""
    figure = "no interval"
    if claim and claim["interval"]:
        low, high = claim["interval"]
        figure = f"{claim['measured']:.4f} ({low:.4f} to {high:.4f}), floor {claim['floor_percent'] or 0:.2f} %"
    right = "right" if verdict == expected else f"WRONG, expected {expected}"
    return f"{name:<8} {verdict:<20} {right:<10} cpu/call of B over A {figure}, {seconds:.0f} s"


def main():
    args = options()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    slower = ["--set", f'system.B.environment=["LD_PRELOAD={library(args.out)}"]']
    cases = [(f"same-{seed}", "same.toml", ["--seed", str(seed)], SILENT) for seed in range(1, args.seeds + 1)]
    cases.append(("slower", "slower.toml", slower, FOUND))
    right, lines = 0, []
    for name, definition, more, expected in cases:
        begun = time.monotonic()
        verdict, claim, reason = outcome(args, name, definition, more)
        right += verdict == expected
        lines.append(line(name, expected, verdict, claim, time.monotonic() - begun))
        print(f"{lines[-1]}\n         {reason}", flush=True)
    print("\n" + "\n".join(lines))
    print(f"\n{right} of {len(cases)} verdicts are right; results in {args.out}")
    return 0 if right == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
