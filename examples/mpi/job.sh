#!/bin/sh
# An MPI job with one trace for each rank.
#
#     ./job.sh RANKS ./app ARGS...          # traces in a new folder below `traces`; DEVICE=emulated without a GPU
#
# Each rank has its own `autoamp run`. Rank 0 prints its summary, and the report at the end covers all ranks. With Slurm,
# replace `mpirun -n "$ranks"` by `srun`.
set -eu
ranks=${1:?usage: job.sh RANKS APP ARGS...}
shift
traces=${TRACES:-traces/$(date +%Y-%m-%dT%H-%M-%S)}
mpirun ${MPIRUN_OPTIONS:-} -n "$ranks" autoamp run --device "${DEVICE:-auto}" -o "$traces/%rank%.aat" -- "$@"
autoamp report --by rank "$traces"
