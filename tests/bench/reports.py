#!/usr/bin/env python3
"""What reports and exports of long runs cost: seconds, resident memory, events a second, bytes of the page.

usage: reports.py BUILD [EVENTS [RANKS EVENTS-OF-A-RANK]]
(ninja -C BUILD tools/autoamp tests/bench/make_trace tests/cli/traced; a venv of tests/cli/readers.txt in BUILD/venv for the ranks)
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

build = pathlib.Path(sys.argv[1]).resolve()
events = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
ranks, of_rank = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 4 else (0, 0)
DASK = """
import sys, dask.dataframe, distributed
with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None) as cluster, \\
        distributed.Client(cluster):
    calls = dask.dataframe.read_parquet(sys.argv[1], columns=["rank", "duration_ns"])
    print(len(calls.groupby("rank", observed=True).duration_ns.sum().compute()), "ranks")
"""


def measure(what, command, work, **options):
    start = time.monotonic()
    child = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    seconds, cpu = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    print(f"{what:<22} {seconds:7.2f} s  {cpu:7.2f} s of CPU  {usage.ru_maxrss / 1024:6.0f} MiB  {work / cpu / 1e6:6.2f} M/s of CPU", flush=True)


print("load", *os.getloadavg(), "cores", os.cpu_count())
environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[2] / "tools/python")}
with tempfile.TemporaryDirectory() as folder:
    autoamp, here = build / "tools/autoamp", pathlib.Path(folder)
    if events:
        trace = here / "long.aat"
        subprocess.run([build / "tests/bench/make_trace", trace, str(events), str(events)], check=True, stdout=subprocess.DEVNULL)
        print(f"{events} calls, {events} kernels, {trace.stat().st_size >> 20} MiB")
        for view in ("summary", "ops", "kernels"):
            measure(f"report {view}", [autoamp, "report", "--report", view, trace], 2 * events, stdout=subprocess.DEVNULL)
        with open(here / "page.html", "wb") as page:
            measure("report html", [autoamp, "report", "--format", "html", trace], 2 * events, stdout=page)
        print(f"page: {(here / 'page.html').stat().st_size / 1e6:.2f} MB")
        for kind in ("perfetto", "sqlite", "csv", "jsonl", "chrome"):
            measure(f"export {kind}", [autoamp, "export", "--type", kind, "-o", here / kind, trace], 2 * events)
            os.remove(here / kind)
        os.remove(trace)
    if ranks:
        for rank in range(ranks):
            subprocess.run([build / "tests/cli/traced", "many", str(of_rank)], check=True,
                           env={"AUTOAMP_TRACE_FILE": str(here / "job/%rank%.aat"), "OMPI_COMM_WORLD_RANK": str(rank)})
        python = build / "venv/bin"
        environment["PATH"] = f"{python}:{environment['PATH']}"
        measure(f"report, {ranks} ranks", [autoamp, "report", "--by", "rank", here / "job"], ranks * of_rank, stdout=subprocess.DEVNULL)
        measure(f"parquet, {ranks} ranks", [autoamp, "export", "--type", "parquet", "-o", here / "set", here / "job"], ranks * of_rank,
                env=environment)
        (here / "sum.py").write_text(DASK)
        measure("sum by rank, Dask", [python / "python3", here / "sum.py", here / "set/calls"], ranks * of_rank)
