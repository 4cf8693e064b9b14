#!/bin/bash
# sanitize.sh BUILD address|thread: unit tests and the core once more with AddressSanitizer and
# UndefinedBehaviorSanitizer, or with ThreadSanitizer, in a folder of its own below BUILD. Clients run on BUILD's emulated
# device, which is not instrumented because the tools do not support its fibres. Exit 77 without the tools.
set -eu
build=$(realpath "$1")
tool=$2 # also in the names of the checks
root=$(realpath "$(dirname "$0")/..")
out=$build/sanitize/$tool
mkdir -p "$out"

runtime() { # path of a sanitizer's library, by the compiler's own name for it
    realpath "$(g++ -print-file-name="lib$1.so")"
}
for library in asan ubsan tsan; do
    [ -e "$(runtime $library)" ] || { echo "no lib$library"; exit 77; }
done

prepare() { # SANITIZERS TARGET...
    local sanitizers=$1
    shift
    # -O0: optimizing the checks would take the compiler longer than the checks cost here. enum: an application's
    # invalid value is passed to the vendor unchanged. tsan: it does not model fences; do not warn about each. g1: lines
    # for the stacks. The kernels are not run: one architecture.
    meson setup $([ -f "$out/build.ninja" ] && echo --reconfigure) "$out" "$root" -Db_sanitize="$sanitizers" \
        -Db_lundef=false -Doptimization=0 -Dgpu_archs=90 -Dcpp_args='-fno-sanitize=enum -Wno-tsan -g1' >"$out.log"
    ninja -C "$out" -j2 "$@" >"$out.log" || { tail -n 30 "$out.log"; exit 1; }
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

preloaded() { # CLIENT [VARIABLE=VALUE...]
    local client
    read -rd '' -a client <<<"$build/tests/preload/$1" || true # it may have arguments
    shift
    env LD_PRELOAD="$(runtime "${tool:0:1}san") $out/inject/libautoamp.so" LD_LIBRARY_PATH="$build/tools/emulated" \
        AUTOAMP_STRATEGY=cast AUTOAMP_TRACE=ops AUTOAMP_TRACE_FILE="$out/traces/%e.%p.aat" "$@" "${client[@]}"
}
clients() { # CLIENT...: in float16, which also runs the code for bfloat16, and scales
    local client
    for client in "$@"; do
        check "${client%% *}, $tool" preloaded "$client" AUTOAMP_DTYPE=float16
    done
}

# Names without a limit take minutes here, and so does a program that does one thing ten thousand times.
regions='clients/regions --case [!n]*'
convolutions='clients/convolutions --case [!m]*'
dnn_graph='clients/dnn_graph --case [!c]* --case captured*'
rnn='clients/rnn --case [!ms]*'
kernels() { # CUPTI records, with each kind of fault
    local misdeed case
    for misdeed in '' late,shuffled lost,early,reversed,dropped orphaned held; do
        check "clients/kernels, CUPTI ${misdeed:-sound}, $tool" preloaded \
            'clients/kernels --case eager --case light --case kept --case beside --case graph --case *thread* --case crowd
             --case fork --case resets' AUTOAMP_TRACE=kernels ${misdeed:+AUTOAMP_EMU_CUPTI=$misdeed}
    done
    for case in first second beforehand afterwards finalized; do # there is one libcupti
        check "clients/kernels $case, $tool" preloaded "clients/kernels --case $case" AUTOAMP_TRACE=kernels
    done
}

scalers() { # probes around the updates of gradient scalers, in threads and in a graph
    printf '%s\n' product 'threads 8 50' 'scaler a torch x 1 0 1' 'found a 0' 'update a 2 0.5 3 1' 'capture g x' \
        'update a 2 0.5 3 1' end 'found a 1' 'replay g x' 'print a' >"$out/script"
    check "clients/scalers, $tool" preloaded clients/scalers AUTOAMP_TRACE=kernels \
        AUTOAMP_EMU_PLUGINS="$build/tests/preload/clients/libscaler-kernels.so" <"$out/script"
}

weights() { # kept copies in graphs, threads and streams, and their release
    local mode
    for mode in checked frozen; do
        check "clients/weights, $mode, $tool" preloaded \
            'clients/weights --case same.* --case change.step --case change.replayed* --case change.freed
             --case change.threads --case change.streams --case reset' AUTOAMP_WEIGHTS=$mode AUTOAMP_DTYPE=float16
    done
}

blas() { # the front for a CPU BLAS
    local part
    for part in 'linked products' 'linked64 integers' 'linked values' 'linked overlaps' 'linked counted' 'linked batches' \
        'linked repeats' 'faults forks' 'faults crowd' 'faults environment' 'faults large' 'faults at_exit' 'faults handler'; do
        check "cpu_$part, $tool" env LD_PRELOAD="$(runtime "${tool:0:1}san") $out/inject/libautoamp-cpu.so" \
            LD_LIBRARY_PATH="$build/tests/preload/cpu" AUTOAMP_STRATEGY=cast AUTOAMP_DTYPE=bfloat16 AUTOAMP_TRACE=ops \
            AUTOAMP_TRACE_FILE="$out/traces/%e.%p.aat" "$build/tests/preload/cpu/cpu_${part% *}" "${part#* }"
    done
}

cpu() { # PROGRAM [TEST]: exit 77 on a CPU without bfloat16
    "$out/tests/unit/$1" -w NoTests "${@:2}" || [ $? = 77 ]
}

# Memory that lives as long as the process is never released.
export ASAN_OPTIONS=detect_leaks=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:exitcode=98
# The header of a trace is copied while threads continue to count, each counter by one atomic store.
# The emulated device is not instrumented, so its locks are not seen.
printf 'race:%s\n' autoamp::trace::File::write emulated::copy >"$out/tsan.suppressions"
export TSAN_OPTIONS=exitcode=97:die_after_fork=0:history_size=7:suppressions=$out/tsan.suppressions

targets=(inject/libautoamp.so inject/libautoamp-cpu.so inject/libautoamp-core.so tests/unit/unit_trace tests/unit/unit_cpu
    tests/unit/unit_weights)
case $tool in
address) prepare address,undefined "${targets[@]}" tests/unit/unit_policy tests/unit/unit_kernels ;;
thread) prepare thread "${targets[@]}" ;;
esac
clients faults/faults_client clients/capture clients/semantics "$regions" clients/dnn "$convolutions" "$dnn_graph" "$rnn" \
    clients/hot_path
kernels
scalers
weights
blas
case $tool in
address)
    check 'unit_policy, address and undefined' "$out/tests/unit/unit_policy"
    # Thousands of products, and a large one, take three minutes here. The other cases run the same code.
    check 'unit_kernels, address and undefined' "$out/tests/unit/unit_kernels" -w NoTests \
        '~"an audit measures the error of hostile products*" ~"every part of a large product counts"'\
' ~"a changed element is found within 64 calls*" ~"the loss check finds what the published model finds*"'\
' ~"each of thousands of pairs*" ~"the strict decision does not depend*"'
    # A child of a process whose threads allocate can inherit a locked allocator of this sanitizer. The other one runs the
    # first two. The last two are many products of code that the others run.
    check 'unit_cpu, address and undefined' cpu unit_cpu \
        '~[.] ~"threads multiply at once*" ~"our own threads multiply for many callers*"'\
' ~"our own threads give the bits of one thread" ~"long sums lose less than 1e-5"'
    check 'unit_weights, address and undefined' cpu unit_weights
    # Cutting at every byte and filling disks byte by byte take minutes here.
    check 'unit_trace, address and undefined' "$out/tests/unit/unit_trace" '~"a file cut at any byte*" ~"a full disk*"'
    for fault in cublasLtMatmul:2 cublasLtMatmulAlgoGetHeuristic:1 cublasLtMatrixLayoutCreate:3 cuLaunchKernel:3 \
        cuMemAlloc_v2:2 cuMemHostRegister_v2:1 cuMemPoolCreate:1 cuUserObjectCreate:1 cuGraphRetainUserObject:1 \
        cuStreamUpdateCaptureDependencies:1; do
        check "faults_client without $fault, address" preloaded faults/faults_client AUTOAMP_EMU_FAIL=$fault
    done
    ;;
thread)
    clients 'clients/scaler --case threads --case record --case wrong'
    # The other tests use libgomp, which is not instrumented.
    for test in 'threads multiply at once*' 'each part is computed*' 'our own threads multiply*'; do
        check "unit_cpu: $test, thread" cpu unit_cpu "$test"
    done
    check 'unit_weights: threads, thread' cpu unit_weights 'threads *'
    for test in 'threads count exactly*' 'a forked child*' 'often-made calls*' 'recorded data*'; do
        check "unit_trace: $test, thread" "$out/tests/unit/unit_trace" -w NoTests "$test"
    done
    ;;
esac
rm -rf "$out/traces"

# Programs that are built with sanitizers themselves: their runtime calls the front's dlsym before it can serve any
# call.
for front in libautoamp libautoamp-cpu; do
    check "$front before a program with $tool" env LD_PRELOAD="$build/inject/$front.so" \
        ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 "$out/tests/unit/unit_trace" -w NoTests 'recorded data*'
done
exit $failed
