#!/bin/sh
# A CI gate: fails if the calls of a program have a larger error than allowed, or are slower than in a stored run.
#
#     autoamp run --audit 1 -o baseline.aat -- ./app ARGS...    # once, on the same kind of machine; keep the file
#     ./gate.sh baseline.aat ./app ARGS...                      # in each CI job
#
# Exit status 1: the gate is closed, or the program failed with this status, as a message on stderr says. MAX_ERROR is the
# allowed relative error of a product (float16: about 3e-4, bfloat16: 2e-3), MAX_SLOWER the allowed increase of the time in
# per cent. DEVICE=emulated needs no GPU; its times have no meaning, so only the error is compared. The comparison
# is printed as Markdown, for a job summary or a comment.
set -eu
baseline=${1:?usage: gate.sh BASELINE APP ARGS...}
shift
device=${DEVICE:-auto}
current=${CURRENT:-current.aat}
[ -e "$baseline" ] || { echo "gate.sh: no baseline $baseline: record it first, see the head of this script" >&2; exit 2; }
autoamp run --device "$device" --audit 1 -o "$current" --force --quiet -- "$@" || {
    status=$?
    echo "gate.sh: the program failed with status $status; nothing was compared" >&2
    exit $status
}
set -- --fail-if-error "${MAX_ERROR:-5e-3}"
[ "$device" = emulated ] || set -- "$@" --fail-if-slower "${MAX_SLOWER:-10}"
autoamp diff --format md --all "$@" "$baseline" "$current"
