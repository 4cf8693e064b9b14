#!/bin/sh
# A torchrun job with one trace for each worker.
#
#     ./job.sh WORKERS ddp.py ARGS...       # traces in a new folder below `traces`; DEVICE=cpu without a GPU
#
# One `autoamp run` starts torchrun, and the workers inherit its settings. torchrun sets RANK in each worker, and %q{RANK}
# is its value. The summary covers all workers.
set -eu
workers=${1:?usage: job.sh WORKERS SCRIPT ARGS...}
shift
traces=${TRACES:-traces/$(date +%Y-%m-%dT%H-%M-%S)}
autoamp run --device "${DEVICE:-auto}" -o "$traces/%q{RANK}.aat" -- torchrun --standalone --nproc_per_node "$workers" "$@"
autoamp report "$traces"
