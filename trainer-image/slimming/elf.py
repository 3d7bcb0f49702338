"""Shared libraries that export the names of another one and do nothing: calling any of them ends the process.

PyTorch's CUDA build links the CUDA libraries by name, so the loader wants them even where there is no GPU, but no code
of theirs ever runs there. Such a stub is a few hundred kB instead of hundreds of MB. Layout: System V ABI, "Dynamic
Linking"; symbol versions as in the Linux Standard Base.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

PAGE = 0x1000
_UD2 = b"\x0f\x0b"
_HEADERS_END = 0x40 + 4 * 56
_FUNCTION, _OBJECT = 2, 1
_SHT_DYNSYM, _SHT_VERDEF, _SHT_VERSYM, _SHT_DYNAMIC = 11, 0x6FFFFFFD, 0x6FFFFFFF, 6
_DT_SONAME, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_HASH = 14, 5, 6, 10, 11, 4
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD


@dataclass(frozen=True, slots=True)
class Export:
    """A defined dynamic symbol."""

    name: bytes
    kind: int
    size: int
    version: bytes | None


@dataclass(frozen=True, slots=True)
class Library:
    """What other libraries can see of one."""

    soname: bytes
    exports: tuple[Export, ...]


def read(path: Path) -> Library:
    """The library's own name and its exports in C. Raises ValueError for what is not a 64-bit little-endian ELF."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    (table,), (size, count) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * i) for i in range(count)]
    by_type = {section[1]: section for section in sections}
    symbols, dynamic = by_type[_SHT_DYNSYM], by_type[_SHT_DYNAMIC]
    strings = sections[symbols[6]][4]
    versions = _defined_versions(data, by_type, sections)
    numbers = by_type.get(_SHT_VERSYM)
    exports = []
    for index in range(1, symbols[5] // 24):
        name, info, _, where, _, length = struct.unpack_from("<IBBHQQ", data, symbols[4] + 24 * index)
        kind = info & 15
        if where == 0 or info >> 4 == 0 or kind not in {_FUNCTION, _OBJECT, 10}:
            continue
        number = struct.unpack_from("<H", data, numbers[4] + 2 * index)[0] & 0x7FFF if numbers else 1
        text = _string(data, strings + name)
        if text.startswith(b"_Z"):  # C++: a copy of the standard library's, which must not shadow the real one
            continue
        exports.append(Export(text, _OBJECT if kind == _OBJECT else _FUNCTION, length, versions.get(number)))
    tags = [struct.unpack_from("<qQ", data, dynamic[4] + 16 * i) for i in range(dynamic[5] // 16)]
    soname = next((_string(data, strings + value) for tag, value in tags if tag == _DT_SONAME), path.name.encode())
    return Library(soname, tuple(exports))


def stub(library: Library) -> bytes:
    """A loadable library of that name with those exports.

    One segment to read and execute (headers, names, hashes, two bytes of code), one to write (the dynamic section, and
    room for the largest exported object).
    """
    strings = _Strings()
    soname = strings.add(library.soname)
    versions = sorted({export.version for export in library.exports if export.version})
    names = [strings.add(export.name) for export in library.exports]
    tables = {
        _DT_HASH: _hash_table([export.name for export in library.exports]),
        _DT_VERSYM: _version_numbers(library, versions),
        _DT_VERDEF: _verdef(library.soname, versions, strings),
        _DT_STRTAB: bytes(strings.data),
        _DT_SYMTAB: bytes(24 * (len(names) + 1)),
    }
    code_at = _HEADERS_END
    at = _align(code_at + len(_UD2))
    places = {}
    for tag, table in tables.items():
        places[tag], at = at, _align(at + len(table))
    data_at = _align(at, PAGE)
    dynamic = _dynamic(places, soname, len(tables[_DT_STRTAB]), len(versions))
    objects_at = data_at + _align(len(dynamic), 64)
    tables[_DT_SYMTAB] = bytes(24) + b"".join(
        _symbol(name, export, code_at if export.kind == _FUNCTION else objects_at)
        for name, export in zip(names, library.exports, strict=True)
    )
    room = objects_at - data_at + max((e.size for e in library.exports if e.kind == _OBJECT), default=0)
    image = bytearray(data_at)
    parts = [(0, _headers(at, data_at, len(dynamic), room)), (code_at, _UD2)]
    for where, content in [*parts, *((places[tag], table) for tag, table in tables.items())]:
        image[where : where + len(content)] = content
    return bytes(image) + dynamic


def _headers(code_size: int, data_at: int, dynamic_size: int, data_size: int) -> bytes:
    segments = [
        struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, code_size, code_size, PAGE),
        struct.pack("<IIQQQQQQ", 1, 6, data_at, data_at, data_at, dynamic_size, data_size, PAGE),
        struct.pack("<IIQQQQQQ", 2, 6, data_at, data_at, data_at, dynamic_size, dynamic_size, 8),
        struct.pack("<IIQQQQQQ", 0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # a stack that is not executable
    ]
    start = b"\x7fELF\x02\x01\x01" + bytes(9)
    file = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0x40, 0, 0, 64, 56, len(segments), 0, 0, 0)
    return start + file + b"".join(segments)


def _dynamic(places: dict[int, int], soname: int, strings_size: int, versions: int) -> bytes:
    tags = [(_DT_SONAME, soname), (_DT_STRSZ, strings_size), (_DT_SYMENT, 24)]
    tags += [(tag, place) for tag, place in places.items() if versions or tag not in {_DT_VERSYM, _DT_VERDEF}]
    if versions:
        tags.append((_DT_VERDEFNUM, versions + 1))
    return b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])


def _version_numbers(library: Library, versions: list[bytes]) -> bytes:
    numbers = {version: index + 2 for index, version in enumerate(versions)}
    of_symbols = [numbers[export.version] if export.version else 1 for export in library.exports]
    return struct.pack(f"<{len(of_symbols) + 1}H", 0, *of_symbols)


class _Strings:
    def __init__(self) -> None:
        self.data = bytearray(1)
        self._known: dict[bytes, int] = {b"": 0}

    def add(self, text: bytes) -> int:
        if text not in self._known:
            self._known[text] = len(self.data)
            self.data += text + b"\0"
        return self._known[text]


def _symbol(name: int, export: Export, value: int) -> bytes:
    return struct.pack("<IBBHQQ", name, 1 << 4 | export.kind, 0, 1, value, export.size)


def _verdef(soname: bytes, versions: list[bytes], strings: _Strings) -> bytes:
    entries = [(1, soname, 1), *((0, version, index + 2) for index, version in enumerate(versions))]
    result = b""
    for position, (flags, name, number) in enumerate(entries):
        last = position == len(entries) - 1
        result += struct.pack("<HHHHIII", 1, flags, number, 1, _hash(name), 20, 0 if last else 28)
        result += struct.pack("<II", strings.add(name), 0)
    return result


def _hash_table(names: list[bytes]) -> bytes:
    buckets = [0] * (len(names) | 1)
    chain = [0] * (len(names) + 1)
    for index, name in enumerate(names, start=1):
        bucket = _hash(name) % len(buckets)
        chain[index], buckets[bucket] = buckets[bucket], index
    return struct.pack(f"<II{len(buckets)}I{len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _defined_versions(
    data: bytes, by_type: dict[int, tuple[int, ...]], sections: list[tuple[int, ...]]
) -> dict[int, bytes]:
    section = by_type.get(_SHT_VERDEF)
    if section is None:
        return {}
    strings, at, result = sections[section[6]][4], section[4], {}
    while True:
        _, flags, number, _, _, auxiliary, following = struct.unpack_from("<HHHHIII", data, at)
        if not flags & 1:
            result[number & 0x7FFF] = _string(data, strings + struct.unpack_from("<I", data, at + auxiliary)[0])
        if following == 0:
            return result
        at += following


def _string(data: bytes, at: int) -> bytes:
    return data[at : data.index(b"\0", at)]


def _align(value: int, to: int = 8) -> int:
    return (value + to - 1) // to * to
