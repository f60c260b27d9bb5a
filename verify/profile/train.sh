#!/usr/bin/env bash
# Writes target/profile/strowger.profdata: builds the program with counters in it, runs the calls of `make bench` through
# `serve` and `balance`, and adds up what was counted. About ten minutes. `make build-profiled` does it by itself where
# there is no profile for the compiler in use; do it again when the hot path has changed.
#
#   verify/profile/train.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-$root/target}
work=$target/training
say() { printf '\n=== %s\n' "$*"; }

merge=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/llvm-profdata
if [ ! -x "$merge" ]; then
    say "llvm-profdata of this compiler"
    rustup component add llvm-tools || {
        echo "train.sh: no $merge; install it with: rustup component add llvm-tools" >&2
        exit 1
    }
fi

say "build with counters"
# What build scripts count is of no use.
flags="-Cprofile-generate=$work/building"
build() { CARGO_ENCODED_RUSTFLAGS=$flags CARGO_TARGET_DIR=$work $cargo rustc --release --locked "$@"; }
build -p strowger --bin strowger
build -p load --example scenario_cost
bin=$work/release/strowger
rm -rf "$work/runs"

say "calls"
# train NAME LINES: runs a system with these lines of an experiment.
train() {
    printf 'question = "Training"\nrepetitions = 1\nwarm_up = "6s"\nmeasure = "4s"\n%b\n' "$2" >"$work/$1.toml"
    rm -rf "$work/$1.lab"
    # No verdict is wanted: only a part that does not start is a failure.
    LLVM_PROFILE_FILE=$work/runs/%p-%m.profraw "$bin" lab run "$work/$1.toml" --out "$work/$1.lab" || test $? -ne 2
}
train plain '[system.this]'
train digest '[system.this]\nconfig = "[auth]\\nin_dialog = true\\nchallenge = [\x27INVITE\x27, \x27BYE\x27]"\n
    [workload]\nscenario = "proxy200_auth"\nauthenticate = true'
train registrations '[system.this]\nconfig = "[auth]\\nchallenge = [\x27REGISTER\x27]"\n
    [workload]\nscenario = "register"\nauthenticate = true'
train stateless '[system.this]\nconfig = "[proxy]\\nmode = \x27stateless\x27"'
train balance '[system.this]\nkind = "balance"'

say "the generator's engine, both sides in memory"
for flow in call register; do
    LLVM_PROFILE_FILE=$work/runs/%p-%m.profraw "$work/release/examples/scenario_cost" $flow 5000
done

say "put together"
mkdir -p "$target/profile"
"$merge" merge -o "$target/profile/strowger.profdata" "$work"/runs/*.profraw
rustc -V >"$target/profile/compiler"
ls -l "$target/profile/strowger.profdata"
