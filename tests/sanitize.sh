#!/bin/bash
# sanitize.sh BUILD: the unit tests and the core once more with AddressSanitizer and UndefinedBehaviorSanitizer, the
# recorder and the core with ThreadSanitizer, in separate folders below BUILD. Clients run on BUILD's emulated device,
# which is not instrumented because the tools do not support its fibres. Exit 77 without the tools.
set -eu
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
out=$build/sanitize
mkdir -p "$out"

runtime() { # path of a sanitizer's library, by the compiler's own name for it
    realpath "$(g++ -print-file-name="lib$1.so")"
}
for library in asan ubsan tsan; do
    [ -e "$(runtime $library)" ] || { echo "no lib$library"; exit 77; }
done

prepare() { # NAME SANITIZERS TARGET...
    local folder=$out/$1 sanitizers=$2
    shift 2
    # -O0: optimizing the checks would take the compiler longer than the checks cost here. enum: an application's
    # invalid value is passed to the vendor unchanged. tsan: it does not model fences; do not warn about each. The
    # kernels are not run: one architecture.
    meson setup $([ -f "$folder/build.ninja" ] && echo --reconfigure) "$folder" "$root" -Db_sanitize="$sanitizers" \
        -Db_lundef=false -Doptimization=0 -Dgpu_archs=90 -Dcpp_args='-fno-sanitize=enum -Wno-tsan' >"$folder.log"
    ninja -C "$folder" -j2 "$@" >"$folder.log" || { tail -n 30 "$folder.log"; exit 1; }
}

failed=0
check() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$out/output" 2>&1; then
        echo "ok    $what"
    else
        echo "FAILED (exit $?) $what"
        tail -n 40 "$out/output"
        failed=1
    fi
}

preloaded() { # NAME CLIENT [VARIABLE=VALUE...]
    local name=$1 client
    read -rd '' -a client <<<"$build/tests/preload/$2" || true # it may have arguments
    shift 2
    env LD_PRELOAD="$(runtime "${name:0:1}san") $out/$name/inject/libautoamp.so" LD_LIBRARY_PATH="$build/tools/emulated" \
        AUTOAMP_STRATEGY=cast AUTOAMP_TRACE=ops AUTOAMP_TRACE_FILE="$out/traces/%e.%p.aat" "$@" "${client[@]}"
}
clients() { # NAME CLIENT...
    local name=$1 client dtype
    shift
    for client in "$@"; do
        for dtype in float16 bfloat16; do
            check "${client%% *} in $dtype, $name" preloaded "$name" "$client" AUTOAMP_DTYPE=$dtype
        done
    done
}

# Names without a limit take minutes here, and so does a program that does one thing ten thousand times.
regions='clients/regions --case [!n]*'
convolutions='clients/convolutions --case [!m]*'
dnn_graph='clients/dnn_graph --case [!c]* --case captured*'
rnn='clients/rnn --case [!ms]*'
kernels() { # NAME: CUPTI records, with each kind of fault
    local misdeed case
    for misdeed in '' late,shuffled lost,early,reversed,dropped orphaned held; do
        check "clients/kernels, CUPTI ${misdeed:-sound}, $1" preloaded "$1" \
            'clients/kernels --case eager --case light --case kept --case beside --case graph --case *thread* --case crowd
             --case fork --case resets' AUTOAMP_TRACE=kernels ${misdeed:+AUTOAMP_EMU_CUPTI=$misdeed}
    done
    for case in first second beforehand afterwards finalized; do # there is one libcupti
        check "clients/kernels $case, $1" preloaded "$1" "clients/kernels --case $case" AUTOAMP_TRACE=kernels
    done
}

scalers() { # NAME: probes around the updates of gradient scalers, in threads and in a graph
    printf '%s\n' product 'threads 8 50' 'scaler a torch x 1 0 1' 'found a 0' 'update a 2 0.5 3 1' 'capture g x' \
        'update a 2 0.5 3 1' end 'found a 1' 'replay g x' 'print a' >"$out/script"
    check "clients/scalers, $1" preloaded "$1" clients/scalers AUTOAMP_TRACE=kernels \
        AUTOAMP_EMU_PLUGINS="$build/tests/preload/clients/libscaler-kernels.so" <"$out/script"
}

weights() { # NAME: kept copies in graphs, threads and streams, and their release
    local mode dtype
    for mode in checked frozen; do
        for dtype in float16 bfloat16; do
            check "clients/weights, $mode, $dtype, $1" preloaded "$1" \
                'clients/weights --case same.* --case change.step --case change.replayed* --case change.freed
                 --case change.threads --case change.streams --case reset' AUTOAMP_WEIGHTS=$mode AUTOAMP_DTYPE=$dtype
        done
    done
}

blas() { # NAME: the front for a CPU BLAS
    local part
    for part in 'linked products' 'linked64 integers' 'linked values' 'linked overlaps' 'linked counted' 'linked batches' \
        'linked repeats' 'faults forks' 'faults crowd' 'faults environment' 'faults large' 'faults at_exit' 'faults handler'; do
        check "cpu_$part, $1" env LD_PRELOAD="$(runtime "${1:0:1}san") $out/$1/inject/libautoamp-cpu.so" \
            LD_LIBRARY_PATH="$build/tests/preload/cpu" AUTOAMP_STRATEGY=cast AUTOAMP_DTYPE=bfloat16 AUTOAMP_TRACE=ops \
            AUTOAMP_TRACE_FILE="$out/traces/%e.%p.aat" "$build/tests/preload/cpu/cpu_${part% *}" "${part#* }"
    done
}

cpu() { # NAME PROGRAM [TEST]: exit 77 on a CPU without bfloat16
    "$out/$1/tests/unit/$2" -w NoTests "${@:3}" || [ $? = 77 ]
}

# Memory that lives as long as the process is never released.
export ASAN_OPTIONS=detect_leaks=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:exitcode=98
# The totals of a trace are written to its file while threads continue to count, each counter by one atomic store. The
# suppressions need the stack of the write, which a short history of the thread does not have.
printf 'race:pwrite\nrace:autoamp::trace::File::write\n' >"$out/tsan.suppressions"
export TSAN_OPTIONS=exitcode=97:die_after_fork=0:history_size=7:suppressions=$out/tsan.suppressions

prepare address address,undefined inject/libautoamp.so inject/libautoamp-cpu.so inject/libautoamp-core.so tests/unit/unit_policy \
    tests/unit/unit_trace tests/unit/unit_kernels tests/unit/unit_cpu tests/unit/unit_weights
check 'unit_policy, address and undefined' "$out/address/tests/unit/unit_policy"
check 'unit_kernels, address and undefined' "$out/address/tests/unit/unit_kernels"
check 'unit_cpu, address and undefined' cpu address unit_cpu
check 'unit_weights, address and undefined' cpu address unit_weights
blas address
# Cutting at every byte and filling disks byte by byte take minutes here.
check 'unit_trace, address and undefined' "$out/address/tests/unit/unit_trace" '~"a file cut at any byte*" ~"a full disk*"'
clients address faults/faults_client clients/capture clients/semantics "$regions" clients/dnn "$convolutions" \
    "$dnn_graph" "$rnn" clients/hot_path
kernels address
scalers address
weights address
for fault in cublasLtMatmul:2 cublasLtMatmulAlgoGetHeuristic:1 cublasLtMatrixLayoutCreate:3 cuLaunchKernel:3 \
    cuMemAlloc_v2:2 cuMemHostRegister_v2:1 cuMemPoolCreate:1 cuUserObjectCreate:1 cuGraphRetainUserObject:1 \
    cuStreamUpdateCaptureDependencies:1; do
    check "faults_client without $fault, address" preloaded address faults/faults_client AUTOAMP_EMU_FAIL=$fault
done

prepare thread thread inject/libautoamp.so inject/libautoamp-cpu.so inject/libautoamp-core.so tests/unit/unit_trace \
    tests/unit/unit_cpu tests/unit/unit_weights
clients thread faults/faults_client clients/capture clients/semantics "$regions" clients/dnn "$convolutions" \
    "$dnn_graph" "$rnn" clients/hot_path 'clients/scaler --case threads --case record --case wrong'
kernels thread
scalers thread
weights thread
blas thread
# The other tests use libgomp, which is not instrumented.
for name in 'threads multiply at once*' 'each part is computed*' 'our own threads multiply*'; do
    check "unit_cpu: $name, thread" cpu thread unit_cpu "$name"
done
check 'unit_weights: threads, thread' cpu thread unit_weights 'threads *'
rm -rf "$out/traces"
for name in 'threads count exactly*' 'a forked child*' 'often-made calls*' 'recorded data*'; do
    check "unit_trace: $name, thread" "$out/thread/tests/unit/unit_trace" -w NoTests "$name"
done

# Programs that are built with sanitizers themselves: their runtime calls the front's dlsym before it can serve any
# call.
for name in address thread; do
    for front in libautoamp libautoamp-cpu; do
        check "$front before a program with $name" env LD_PRELOAD="$build/inject/$front.so" \
            ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 "$out/$name/tests/unit/unit_trace" -w NoTests 'recorded data*'
    done
done
exit $failed
