"""The version is that of meson.build."""
import pathlib
import re

import setuptools

BUILD = pathlib.Path(__file__).resolve().parents[2] / "meson.build"
setuptools.setup(version=re.search(r"^ *version : '(.*)'", BUILD.read_text(encoding="utf-8"), re.M)[1])
