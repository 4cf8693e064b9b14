#!/usr/bin/env python3
"""Costs of reports and exports of long runs: seconds, resident memory, events per second, bytes, and loading of the
page.

usage: reports.py BUILD [EVENTS [RANKS EVENTS-OF-A-RANK]]
(ninja -C BUILD tools/autoamp tests/bench/make_trace tests/cli/traced; a venv of tests/cli/readers.txt in BUILD/venv and
Chromium for the ranks and the page; files are written to TMPDIR)
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

build = pathlib.Path(sys.argv[1]).resolve()
events = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
ranks, of_rank = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 4 else (0, 0)
RUNS = 3  # per command; the fastest counts, because other load slows the others down
DASK = """
import resource, sys, dask.dataframe, distributed

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="512MiB", dashboard_address=None) as cluster, \\
            distributed.Client(cluster) as client:
        calls = dask.dataframe.read_parquet(sys.argv[1])
        sums = calls.groupby(["rank", "decision"], observed=True).duration_ns.agg(["sum", "count"]).compute()
        longest = calls.nlargest(10, "duration_ns").compute()
        assert len(longest) == 10, longest
        print(len(sums), "sums,", sums["count"].sum(), "calls,", calls.npartitions, "partitions, workers'",
              *client.run(most).values(), "MiB", flush=True)
"""
PAGE = """
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    for _ in range(5):
        page = browser.new_page()
        page.goto("file://" + sys.argv[2])
        print("page loaded in %.2f s" % (page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1e3), flush=True)
        page.close()
    browser.close()
"""


def measure(what, command, work, **options):
    least = [float("inf")] * 2
    for _ in range(RUNS):
        if "-o" in command:
            place = command[command.index("-o") + 1]
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        start = time.monotonic()
        child = subprocess.Popen(command, **options)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, command
        least = [min(pair) for pair in zip(least, (time.monotonic() - start, usage.ru_utime + usage.ru_stime))]
    seconds, cpu = least
    print(f"{what:<22} {seconds:7.2f} s  {cpu:7.2f} s of CPU  {usage.ru_maxrss / 1024:6.0f} MiB  {work / cpu / 1e6:6.2f} M/s of CPU  "
          f"load {os.getloadavg()[0]:.1f}", flush=True)


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
        command = [autoamp, "report", "--format", "html", trace]
        measure("report html", command, 2 * events, stdout=subprocess.DEVNULL)
        with open(here / "page.html", "wb") as page:
            subprocess.run(command, check=True, stdout=page)
        print(f"page: {(here / 'page.html').stat().st_size / 1e6:.2f} MB")
        if chromium := shutil.which("chromium"):
            subprocess.run([build / "venv/bin/python3", "-c", PAGE, chromium, here / "page.html"], check=True)
        for kind in ("perfetto", "sqlite", "csv", "jsonl", "chrome"):
            measure(f"export {kind}", [autoamp, "export", "--type", kind, "-o", here / kind, trace], 2 * events)
            print(f"{'':<22} {(here / kind).stat().st_size >> 20} MiB")
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
        size = sum(path.stat().st_size for path in (here / "set").rglob("*.parquet"))
        print(f"{'':<22} {size >> 20} MiB")
        measure("Dask", [python / "python3", here / "sum.py", here / "set/calls"], ranks * of_rank)
