#!/usr/bin/env bash
# What costs instructions, kernel included, where the machine has no counters for them: in the emulated machine of
# `strowger lab` (lab/runner/src/emulated.sh says how).
#
#   verify/bench/emulated/run.sh BIN FILE.toml [options of strowger lab run]
#   verify/bench/emulated/run.sh BIN generators [options of generators.py]
#   verify/bench/emulated/run.sh BIN self-test [options of strowger load]
#
# An experiment runs once (repetitions = 1), with short windows; `emulated = true` in a file of its own has others. Its
# microseconds of processor time are thousand instructions.
#
# It is about fifty times slower than life. SIPp's two sides cost more than a server, so that 1,000 calls a second of
# the emulated clock need `strowger load`; with SIPp, 300. Judge by ratios.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
bin=$(realpath "${1:?the strowger binary}")
shift
export STROWGER_KERNEL_CACHE=$root/.cache/kernel
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case "${1:-}" in
generators) shift && job=(python3 -u "$here/../generators.py" --bin "$bin" --emulated) ;;
self-test) shift && job=("$bin" load --self-test --workers 1) ;;
*.toml)
    # A verdict needs more repetitions; only a part that does not start is a failure.
    "$bin" lab run --share-machine --out "$scratch" --set emulated=true --set repetitions=1 --set warm_up=3s \
        --set measure=2s "$@" || test $? -ne 2
    exit ;;
*) echo "$0: an experiment (FILE.toml), generators or self-test" >&2 && exit 2 ;;
esac
bash "$root/lab/runner/src/emulated.sh" "$STROWGER_KERNEL_CACHE" "$scratch" "${job[@]}" "$@"
