#!/usr/bin/env bash
# Writes strowger.profdata anew: builds the program with counters in it, has it serve, balance and make the calls of
# `make bench`, the generator's engine those of `make bench-load` in memory, and adds up what was counted. About ten minutes; do it when the hot path has changed, and before a release.
#
# It is trained on these calls alone. With users, an overload and the interop suite besides, even where those counted for
# a twentieth, a call with digest took 157 thousand instructions and not 150: what happens now and then was put into what
# happens always. Streams, which are not trained on, cost the same as without a profile (an OPTIONS and its
# answer over TCP some 40 us).
#
#   verify/profile/train.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cd "$root"
cargo=${CARGO:-cargo}
work=$root/target/training
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
"$merge" merge -o "$here/strowger.profdata" "$work"/runs/*.profraw
rustc -V >"$here/compiler"
ls -l "$here/strowger.profdata"
