"""Places in the bundle."""
import pathlib

HERE = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = str(HERE / "lib/autoamp/libautoamp.so")
EMULATED = str(HERE / "lib/autoamp/emulated")
AUTOAMP = str(HERE / "bin/autoamp")
PROGRAMS = HERE / "programs"
DRIVERS = HERE / "tests/preload"
