#!/usr/bin/env bash
# Run every fuzz target of verify/fuzz for a number of seconds each, starting from its committed corpus.
#
#   verify/fuzz.sh SECONDS [TARGET...]
#   verify/fuzz.sh build
#
# cargo-fuzz needs unstable compiler flags: a nightly toolchain when there is one, else the stable
# compiler told to allow them. New inputs go to a scratch folder, so the tree stays as it was; a
# finding stays under verify/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/fuzz"
seconds=${1:?seconds}
shift
command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install --locked cargo-fuzz" >&2; exit 1; }

if [ -n "${FUZZ_TOOLCHAIN:-}" ]; then
    cargo=(cargo "+$FUZZ_TOOLCHAIN")
elif rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
    cargo=(cargo +nightly)
else
    cargo=(cargo)
    export RUSTC_BOOTSTRAP=1
fi
targets=("$@")
if [ ${#targets[@]} = 0 ]; then mapfile -t targets < <("${cargo[@]}" fuzz list --fuzz-dir .); fi
[ ${#targets[@]} -gt 0 ] || { echo "no fuzz targets found" >&2; exit 1; }

dict=()
[ ! -f sip.dict ] || dict=(-dict=sip.dict)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "building ${#targets[@]} targets: ${targets[*]}"
"${cargo[@]}" fuzz build --fuzz-dir .
[ "$seconds" != build ] || exit 0
for target in "${targets[@]}"; do
    mkdir -p "$scratch/$target" "corpus/$target" "artifacts/$target"
    log=$scratch/$target.log
    if ! "${cargo[@]}" fuzz run --fuzz-dir . "$target" "$scratch/$target" "corpus/$target" -- \
        "${dict[@]}" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "fuzz target $target FAILED"
        exit 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    # A target that executed nothing has shown nothing.
    [ "${runs:-0}" -gt 100 ] || { tail -n 30 "$log"; echo "fuzz target $target executed only ${runs:-no} inputs"; exit 1; }
    echo "fuzz target $target: $runs inputs in $seconds s, no finding"
done
