#!/bin/sh
# The entry point of a container image: runs the command of the container under autoamp.
#
#     docker run --init --gpus all -v "$PWD/traces:/traces" IMAGE app ARGS...
#     docker run -e AUTOAMP_DTYPE=bfloat16 ... IMAGE app ARGS...     # all variables of autoamp have effect
#     docker run -e AUTOAMP_ENABLED=0 ... IMAGE app ARGS...          # the command runs without autoamp
#
# Exit status and signals are those of the command; the receipt follows its standard error. The traces have the host name of the container.
set -eu
if [ "${AUTOAMP_ENABLED:-1}" = 0 ]; then
    exec "$@"
fi
exec autoamp run --device "${DEVICE:-auto}" -o "${TRACES:-/traces}/%e.%h.%p.aat" -- "$@"
