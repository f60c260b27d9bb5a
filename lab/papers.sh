#!/usr/bin/env bash
# The experiments of published papers, one after the other; their reports go into lab/record/.
#
#     lab/papers.sh PROGRAM [PAPER...] [-- OPTION...]
#
# PAPER is the start of a definition's name in lab/papers/, such as 004 or 004-peaks; without one all of them are run.
# OPTION goes to `strowger lab run`. Runs are kept in target/papers/: the same command goes on where it was stopped. A
# definition that needs more than `strowger lab run` has a script of the same name beside it, which gets the program, the
# folder of results and the options.
#
# Exit status: 0 if every experiment has a result, whatever it is; 1 if one is void, was stopped or did not start.
set -u
cd "$(dirname "$0")/.." || exit 2
program=$(realpath -e "${1:?usage: lab/papers.sh PROGRAM [PAPER...] [-- OPTION...]}") || exit 2
shift
papers=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do papers+=("$1"); shift; done
[ $# -gt 0 ] && shift

definitions=()
for paper in "${papers[@]:-}"; do
    found=(lab/papers/"${paper:-[0-9]}"*.toml)
    [ -z "$paper" ] && found=(lab/papers/[0-9]*.toml)
    if [ ! -e "${found[0]}" ]; then
        echo "lab/papers.sh: no definition \"$paper\"; there are: $(basename -s .toml lab/papers/[0-9]*.toml | tr '\n' ' ')" >&2
        exit 2
    fi
    definitions+=("${found[@]}")
done

stopped=
trap 'stopped=yes' INT TERM
mkdir -p lab/record target/papers
number=0 bad=0 summary=
for definition in "${definitions[@]}"; do
    number=$((number + 1))
    name=$(basename -s .toml "$definition")
    out=target/papers/$name
    planned=$("$program" lab plan "$definition" "$@" 2>/dev/null | sed -n 's/^time *//p')
    printf '\n== %s of %s: %s (%s)\n' "$number" "${#definitions[@]}" "$name" "${planned:-no plan}"
    if [ -e "lab/papers/$name.sh" ]; then
        bash "lab/papers/$name.sh" "$program" "$out" "$@"
    else
        "$program" lab run "$definition" --out "$out" "$@"
    fi
    status=$?
    case $status in
        0) said="PASS or MEASURED" ;; 1) said=FAIL ;; 3) said="VOID or STOPPED" ;; 4) said="NO DIFFERENCE SHOWN" ;;
        *) said="DID NOT RUN ($status)" ;;
    esac
    case $status in 0 | 1 | 4) ;; *) bad=1 ;; esac
    summary+=$(printf '%-24s %s' "$name" "$said")$'\n'
    [ -n "$stopped" ] && break
    # Of a run that did not start there is no new report.
    if [ "$status" -le 4 ] && [ "$status" -ne 2 ] && [ -e "$out/report.html" ]; then
        cp "$out/report.html" "lab/record/$name.html"
        cp "$out/outcome.json" "lab/record/$name.json"
    fi
done
printf '\n%s' "$summary"
if [ -n "$stopped" ]; then
    echo "stopped: the same command goes on"
    exit 1
fi
exit "$bad"
