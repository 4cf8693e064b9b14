"""Changes the CUDA version of ELF files: a program linked to libcublas.so.13 then loads libcublas.so.12. The names have
the same length, so only the hashes of symbol versions change with them. The runtime functions whose
parameters differ have another name in CUDA 12, which the programs look up. They read only the name in the result of
cudaGetDeviceProperties, which begins with it in both versions."""
import re
import struct

NAMES = ((rb"(lib(?:cudart|cublas|cublasLt|cupti|nvrtc)\.so\.)13\b", rb"\g<1>12"),
         (rb"(libcusolver\.so\.)12\b", rb"\g<1>11"))
VERSIONS_DEFINED, VERSIONS_NEEDED = 0x6ffffffd, 0x6ffffffe  # section types


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xf0000000
        value = (value ^ high >> 24) & ~high
    return value


def to_cuda12(image):
    """The content of an ELF file or a script for CUDA 13, changed."""
    data = bytearray(image)
    for pattern, replacement in NAMES:
        data = bytearray(re.sub(pattern, replacement, data))
    if data[:4] != b"\x7fELF":
        return bytes(data)
    table, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]

    def text(section, offset):
        start = sections[section[6]][4] + offset
        return bytes(data[start:data.index(b"\0", start)])

    for section in sections:
        kind, start, entries = section[1], section[4], section[7]
        if kind == VERSIONS_NEEDED:
            for _ in range(entries):
                _, names, _, first, following = struct.unpack_from("<HHIII", data, start)
                at = start + first
                for _ in range(names):
                    _, _, _, name, next_name = struct.unpack_from("<IHHII", data, at)
                    struct.pack_into("<I", data, at, elf_hash(text(section, name)))
                    at += next_name
                start += following
        elif kind == VERSIONS_DEFINED:
            for _ in range(entries):
                _, _, _, _, _, first, following = struct.unpack_from("<HHHHIII", data, start)
                name, _ = struct.unpack_from("<II", data, start + first)
                struct.pack_into("<I", data, start + 8, elf_hash(text(section, name)))
                start += following
    return bytes(data)
