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
LLVM_PROFILE_FILE=$work/runs/%p-%m.profraw python3 verify/bench/bench.py --bin "$bin" --servers strowger \
    --workloads proxy200,proxy200-digest,register-digest,stateless,balance --rate 1000 --seconds 3 --reps 1 --count no \
    --out "$work/bench.json"

say "the generator's engine, both sides in memory"
for flow in call register; do
    LLVM_PROFILE_FILE=$work/runs/%p-%m.profraw "$work/release/examples/scenario_cost" $flow 5000
done

say "put together"
mkdir -p "$target/profile"
"$merge" merge -o "$target/profile/strowger.profdata" "$work"/runs/*.profraw
rustc -V >"$target/profile/compiler"
ls -l "$target/profile/strowger.profdata"
