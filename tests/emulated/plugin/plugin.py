#!/usr/bin/env python3
"""program.cu finds its kernel with AUTOAMP_EMU_PLUGINS, and gets an error message without it."""
import os
import subprocess
import sys

emulated, program, plugin = sys.argv[1:]
unknown = "autoamp emulated: _Z5scalePffi is not emulated\n"
rows = [  # plug-ins, exit status, beginning of what stderr has
    (plugin, 0, ""),
    (f"/nowhere.so:{plugin}", 0, "autoamp emulated: /nowhere.so: cannot open"),
    ("", 2, unknown),
    (None, 2, unknown),
]
bad = []
for plugins, status, said in rows:
    environment = dict(os.environ, LD_LIBRARY_PATH=emulated)
    environment.pop("AUTOAMP_EMU_PLUGINS", None)
    if plugins is not None:
        environment["AUTOAMP_EMU_PLUGINS"] = plugins
    ran = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    if ran.returncode != status or not ran.stderr.startswith(said) or bool(ran.stderr) != bool(said):
        bad.append(f"{plugins}: {ran.returncode} {ran.stdout!r} {ran.stderr!r}")
print("\n".join(bad) or f"{len(rows)} runs")
sys.exit(bool(bad))
