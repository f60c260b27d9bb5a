#!/usr/bin/env bash
# Run each fuzz target for some seconds from its committed corpus and dictionary.
#
#   verify/fuzz/smoke.sh [SECONDS [TARGET...]]      (10 seconds, all targets)
#   verify/fuzz/smoke.sh build                      (builds them as for a short run)
#
# With cargo-fuzz this is verify/fuzz.sh. Without it the targets are built by cargo itself with the
# flags that cargo-fuzz would give, on nightly if there is one, else on stable told to allow them.
# New inputs go to a scratch folder; a finding stays under artifacts/.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-10}
[ $# = 0 ] || shift
if command -v cargo-fuzz >/dev/null; then exec ../fuzz.sh "$seconds" "$@"; fi

cargo=(cargo)
if rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    cargo=(cargo +nightly)
else
    export RUSTC_BOOTSTRAP=1
fi
triple=$(rustc -vV | sed -n 's/^host: //p')
# The toolchains of rustup have the runtime of the address sanitizer, Debian's packages of Rust do not.
sanitizer=-Zsanitizer=address
sysroot=$("${cargo[@]/cargo/rustc}" --print sysroot)
if ! compgen -G "$sysroot/lib/rustlib/$triple/lib/librustc-*_rt.asan.a" >/dev/null; then
    echo "fuzz: without the address sanitizer, of which this Rust has no runtime" >&2
    sanitizer=
fi
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing $sanitizer -Cdebug-assertions"
# Short runs take less time than their build, so that is optimised little and in parts.
if [ "$seconds" = build ] || [ "$seconds" -lt 60 ]; then
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
fi
"${cargo[@]}" build --release --target "$triple" --bins
[ "$seconds" != build ] || exit 0

targets=("$@")
if [ ${#targets[@]} = 0 ]; then mapfile -t targets < <(sed -n 's/^name = "\(.*\)"/\1/p' Cargo.toml | tail -n +2); fi
scratch=$(mktemp -d)
# Background programs do not get the signal of Ctrl-C.
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One target, whose log is shown if it fails.
smoke() {
    local target=$1 log=$scratch/$1.log runs program
    mkdir -p "$scratch/$target" "artifacts/$target"
    "${CARGO_TARGET_DIR:-target}/$triple/release/$target" -dict=sip.dict -artifact_prefix="artifacts/$target/" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
        "$scratch/$target" "corpus/$target" >"$log" 2>&1 &
    program=$!
    trap 'kill "$program"; exit 143' TERM
    if ! wait "$program"; then
        tail -n 60 "$log"
        echo "fuzz target $target FAILED"
        return 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    [ "${runs:-0}" -gt 100 ] || { tail -n 30 "$log"; echo "fuzz target $target executed only ${runs:-no} inputs"; return 1; }
    echo "fuzz target $target: $runs inputs in $seconds s, no finding"
}

# As many at a time as there are cores.
failed=0 running=0
for target in "${targets[@]}"; do
    if [ "$running" -ge "$(nproc)" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    smoke "$target" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit "$failed"
