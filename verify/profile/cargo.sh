#!/usr/bin/env bash
# cargo for what is released: the compiler is given what the program was seen to do (strowger.profdata, written by
# train.sh), so that it lays out, and puts into each other, what is used most.
#
#   verify/profile/cargo.sh rustc --release -p strowger --bin strowger
#
# A profile tells a compiler of another version nothing, as functions have other names there; then the build goes without,
# and a call costs some 4 % more instructions. Nothing else differs. `make profile` trains one for the compiler in use.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
profile=$here/strowger.profdata
cargo=${CARGO:-cargo}

if [ "$(rustc -V)" = "$(cat "$here/compiler")" ]; then
    # cargo looks at the flags only, not into the file: another profile has to have another name.
    folder=${CARGO_TARGET_DIR:-$root/target}/profile
    copy=$folder/$(sha256sum "$profile" | cut -c1-16).profdata
    mkdir -p "$folder"
    copy=$(realpath "$folder")/$(basename "$copy")
    [ -e "$copy" ] || { cp "$profile" "$copy.$$" && mv "$copy.$$" "$copy"; }
    flags=("-Cprofile-use=$copy" "-Cllvm-args=-no-pgo-warn-mismatch")
    # Blanks are allowed in paths, and the user's own flags stay.
    own=${CARGO_ENCODED_RUSTFLAGS-$(tr ' ' '\037' <<<"${RUSTFLAGS-}" | tr -d '\n')}
    encoded=$(IFS=$'\x1f' && echo "${flags[*]}")
    export CARGO_ENCODED_RUSTFLAGS=$encoded${own:+$'\x1f'$own}
else
    # Larger functions are put into each other at least, in the last step, which puts the whole program together.
    [ "${1-}" != rustc ] || set -- "$@" -- -C llvm-args=--inline-threshold=1000
    echo "without verify/profile/strowger.profdata, which is of $(cat "$here/compiler"); \`make profile\` makes one for $(rustc -V)" >&2
fi
exec "$cargo" "$@"
