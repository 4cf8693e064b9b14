"""The parts of other projects in the binaries of a build: bill of materials (CycloneDX) and notices.

Parts are found, not listed: the headers that the compiler read for the objects of the installed files, and the static
archives whose functions the files contain. dpkg-query names the package and version of each. A part without a row in PARTS
is an error, so that a new dependency cannot be shipped without its licence."""
import json
import pathlib
import re
import subprocess
import uuid

# Package: install tags, targets.
PACKAGES = {
    "autoamp": ("runtime,devel,man,doc", ["product"]),
    "autoamp-emulated": ("emulated", ["emulated"]),
}
# Packages by pattern: name of the part, licence. None: linked dynamically, or only macros and types of the system.
PARTS = (
    (r"libfmt-dev", "fmt", "MIT"),
    (r"libcli11-dev", "CLI11", "BSD-3-Clause"),
    (r"libtomlplusplus-dev", "toml++", "MIT"),
    (r"nlohmann-json3-dev", "nlohmann-json", "MIT"),
    (r"libprotozero-dev", "protozero", "BSD-2-Clause AND Apache-2.0"),
    (r"libsqlite3-dev", "sqlite", "blessing"),
    (r"zlib1g-dev", "zlib", "Zlib"),
    (r"libopenblas-serial-dev", "OpenBLAS", "BSD-3-Clause"),
    (r"libstdc\+\+-\d+-dev", "libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    (r"libgcc-\d+-dev", "libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    (r"libc6-dev|linux-libc-dev", None, None),
)
ROOT = pathlib.Path(__file__).resolve().parents[1]
NVIDIA = "LicenseRef-NVIDIA-CUDA-EULA"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def objects(build, targets):
    """The object files in these targets, and the archives that their link commands name."""
    inputs = output("ninja", "-C", build, "--quiet", "-t", "inputs", *targets).splitlines()
    paths = {name.strip() for name in inputs}
    archives = {(pathlib.Path(build) / name).resolve() for name in paths if name.endswith(".a") and name.startswith("/")}
    return sorted(name for name in paths if name.endswith(".o")), archives


def headers(build, names):
    """The files outside the build and the sources that the compiler read."""
    text = output("ninja", "-C", build, "--quiet", "-t", "deps", *names)
    found = {line.strip() for line in text.splitlines() if line.startswith("    ")}
    resolved = {(pathlib.Path(build) / name).resolve() for name in found}
    return {path for path in resolved if not {ROOT, pathlib.Path(build).resolve()} & set(path.parents)}


def functions(file, *options):
    """The functions and data that a file or archive defines."""
    text = subprocess.run(["nm", "--defined-only", *options, file], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"^[0-9a-f]+ [TRDBtrdb] (\w+)$", text, re.M))


def contained(archives, files):
    """The archives of which the files contain functions."""
    present = set().union(*(functions(file) for file in files))
    return {archive for archive in archives if functions(archive, "--extern-only") & present}


def owners(paths):
    """{package: version} of files, and the files of no package."""
    listed = subprocess.run(["dpkg-query", "-S", *map(str, sorted(paths))], capture_output=True, text=True, check=False).stdout
    owner = {}
    for line in listed.splitlines():
        names, _, path = line.partition(": ")
        owner[path] = names.split(",")[0].partition(":")[0]
    packages = sorted(set(owner.values()))
    rows = output("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages).splitlines() if packages else []
    versions = dict(row.split(" ") for row in rows)
    return {name: versions[name] for name in packages}, {path for path in paths if str(path) not in owner}


def nvidia_parts(infos):
    """NVIDIA headers in PyPI packages."""
    found = []
    for info in infos:
        if re.match(r"nvidia_(cuda_runtime|cublas|cudnn|cuda_cupti|nvtx|cuda_crt)", info.name):
            name, version = re.match(r"(\w+)-([\d.]+)\.dist-info", info.name).groups()
            texts = sorted(info.rglob("License*"))
            found.append({"name": name.replace("_", "-"), "version": version, "licence": NVIDIA, "purl": f"pkg:pypi/{name.replace('_', '-')}@{version}",
                          "text": texts[0].read_text(encoding="utf-8", errors="replace") if texts else "See https://docs.nvidia.com/cuda/eula/\n"})
    return found


def toolkit_packages(paths):
    """The PyPI packages of the toolkit; none if it is not made of them."""
    roots = {parent.parent for path in paths for parent in path.parents if parent.name == "include"}
    return sorted(info for root in roots for place in (root / "dist-info", root.parents[1]) for info in place.glob("nvidia_*.dist-info"))


def cuda_version(paths):
    header = next(path for path in paths if path.name == "cuda_runtime_api.h").with_name("cuda.h")
    number = int(re.search(r"#define CUDA_VERSION (\d+)", header.read_text(encoding="utf-8"))[1])
    return f"{number // 1000}.{number % 1000 // 10}"


def parts(build, targets, files, nvrtc):
    """The parts of other projects in these targets, sorted by name."""
    names, archives = objects(build, targets)
    packages, unknown = owners(headers(build, names) | contained(archives, files))
    found = []
    for package, version in packages.items():
        row = next((row for row in PARTS if re.fullmatch(row[0], package)), None)
        if row is None:
            raise SystemExit(f"release: {package} {version} is linked but has no row in PARTS of tools/sbom.py")
        if row[1]:
            text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(encoding="utf-8", errors="replace")
            found.append({"name": row[1], "version": version, "licence": row[2], "text": text,
                          "purl": f"pkg:deb/debian/{package}@{version.replace('+', '%2B')}?arch=amd64"})
    toolkit = {path for path in unknown if re.search(r"/(cuda|cu13|cudnn_jit|nvidia)[\w.-]*/", str(path))}
    if unknown - toolkit:
        raise SystemExit("release: files of no package: " + " ".join(map(str, sorted(unknown - toolkit)[:5])))
    infos = toolkit_packages(toolkit)
    if toolkit and not infos:
        found.append({"name": "cuda-toolkit", "version": cuda_version(toolkit), "licence": NVIDIA, "purl": "pkg:generic/cuda-toolkit",
                      "text": "See https://docs.nvidia.com/cuda/eula/\n"})
    if any(name.endswith("/kernels.o") for name in names):  # compiled by NVRTC, with its own headers
        infos += sorted(pathlib.Path(nvrtc).glob("*/*.dist-info"))
    found += nvidia_parts(infos)
    unique = {(part["name"], part["version"]): part for part in found}
    return [unique[key] for key in sorted(unique)]


def binaries(build, name):
    """The files of a package in the build folder, with their symbols."""
    plan = json.loads((pathlib.Path(build) / "meson-info/intro-install_plan.json").read_text(encoding="utf-8"))
    wanted = PACKAGES[name][0].split(",")
    return [file for file, row in plan["targets"].items() if row["tag"] in wanted and pathlib.Path(file).read_bytes()[:4] == b"\x7fELF"]


def package_parts(build, name):
    nvrtc = output(ROOT / "tools/find-toolkit", "nvrtc").strip() or "/nowhere"
    return parts(build, PACKAGES[name][1], binaries(build, name), nvrtc)


def bill(name, version, stamp, found):
    """CycloneDX 1.5."""
    components = [{"type": "library", "bom-ref": part["purl"], "name": part["name"], "version": part["version"],
                   "licenses": [{"expression": part["licence"]}], "purl": part["purl"]} for part in found]
    own = {"type": "application", "bom-ref": f"{name}@{version}", "name": name, "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, components, stamp]))
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", "version": 1,
                       "metadata": {"timestamp": stamp, "component": own}, "components": components,
                       "dependencies": [{"ref": own["bom-ref"], "dependsOn": [part["purl"] for part in found]}]}, indent=1) + "\n"


def notices(licence, found):
    """One file: the licence of autoamp, then each other text, below the names of its parts."""
    parts_of = {}
    for part in found:
        parts_of.setdefault(part["text"], []).append(f"{part['name']} {part['version']} ({part['licence']})")
    text = f"autoamp is licensed under the Apache License 2.0:\n\n{licence}\n"
    for words, names in parts_of.items():
        text += f"\n{'=' * 78}\nThe binaries contain parts of {', '.join(names)}:\n\n{words}\n"
    return text
