"""Damages to files: of their bytes, and of what their bytes say."""

import copy
import gzip
import io
import json
import pickle
import struct
import zipfile

import numpy as np

VALUES = (
    None, True, -1, 0, 1, 2, 0.5, 1e308, 10**30, float("nan"), "", "a", "../../evil", "/etc/passwd",
    "\ud800", "x" * 10_000, [], {}, [[]], {"a": 1}, [1, 2, 3],
)  # fmt: skip


class Canary:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def canary(path):
    return pickle.dumps(Canary(path))


def bytes_of(rng, raw):
    """Some bits, a cut, a block of zeros, of another place or away."""
    if not raw:
        return rng.bytes(int(rng.integers(1, 64)))
    raw, size = bytearray(raw), len(raw)
    place = int(rng.integers(size))
    if rng.random() < 0.4:
        place = int(rng.choice([min(size - 1, place % 64), max(0, size - 1 - place % 80)]))
    length = int(rng.choice([1, 4, 8, 64, 512, 4096]))
    match int(rng.integers(6)):
        case 0 | 1:
            for _ in range(int(rng.choice([1, 1, 3]))):
                raw[place] ^= 1 << int(rng.integers(8))
                place = int(rng.integers(size))
        case 2:
            del raw[place:]
        case 3:
            raw[place : place + length] = bytes(min(length, size - place))
        case 4:
            del raw[place : place + length]
        case _:
            raw[place:place] = raw[:length] if rng.random() < 0.5 else rng.bytes(length)
    return bytes(raw)


def any_file(rng, raw, others, trap):
    """Something else altogether."""
    choices = [
        b"", b"\n", b"{}", b"[]", b"null", b"\xff\xfe", b"PK\x05\x06" + bytes(18), trap,
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n" + trap,
        b"[" * 100_000, rng.bytes(1000), gzip.compress(raw), gzip.compress(bytes(50_000_000), 1),
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", *others,
    ]  # fmt: skip
    return choices[int(rng.integers(len(choices)))]


def places_of(value, found):
    """All (container, key) of nested lists and dicts."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in list(pairs):
        found.append((value, key))
        if isinstance(part, dict | list):
            places_of(part, found)
    return found


def json_of(rng, raw):
    """Another value or no value at a place."""
    value = json.loads(raw)
    for _ in range(int(rng.choice([1, 1, 1, 4]))):
        places = places_of(value, [])
        if not places:
            break
        container, key = places[int(rng.integers(len(places)))]
        if rng.random() < 0.25:
            del container[key]
        elif rng.random() < 0.2 and type(container[key]) is int:
            container[key] = container[key] * int(rng.choice([2, 1000, 10**9])) + 1
        else:
            container[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    return json.dumps(value).encode()


def safetensors_of(rng, raw):
    """Another header, with its right length."""
    (length,) = struct.unpack("<Q", raw[:8])
    header = json_of(rng, raw[8 : 8 + length])
    return struct.pack("<Q", len(header)) + header + raw[8 + length :]


def numpy_of(rng, raw, trap):
    """Another shape or dtype in the header of an array."""
    descr = str(rng.choice(["<f4", "<f8", "|O", "<U9", "<i8", "|V3"]))
    shape = [(2**40,), (2**62, 2**62), (3,), (), (-1,), (0,), (10**9, 1)][int(rng.integers(7))]
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + (trap if descr == "|O" else raw[128:])


def zip_of(rng, raw, others, trap):
    """Another member, with its right checksum."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(sorted(members)))
    match int(rng.integers(8)):
        case 0:
            del members[name]
        case 1:
            members["../../evil"] = b"x"
        case 2:
            members[name[::-1]] = members.pop(name)
        case 3:
            members[name] = bytes(150_000_000) if rng.random() < 0.1 else bytes(1000)
        case _:
            members[name] = mutated(rng, name, members[name], others, trap)
    file = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    if any(len(content) > 10_000_000 for content in members.values()):
        packing = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", packing, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def mutated(rng, name, raw, others, trap):
    """A damage of a file: of its bytes, of what they say, or another file in its place."""
    if not raw:
        return any_file(rng, raw, others, trap)
    draw = rng.random()
    if draw < 0.15:
        return any_file(rng, raw, others, trap)
    if draw < 0.6:
        return bytes_of(rng, raw)
    if raw[:4] == b"PK\x03\x04":
        return zip_of(rng, raw, others, trap)
    if raw[:6] == b"\x93NUMPY":
        return numpy_of(rng, raw, trap)
    if raw[:2] == b"\x1f\x8b":
        return gzip.compress(mutated(rng, name, gzip.decompress(raw), others, trap))
    if name.endswith(".safetensors"):
        return safetensors_of(rng, raw)
    if raw[:1] in (b"{", b"[") and not name.endswith(("jsonl", "toml", "txt")):
        return json_of(rng, raw)
    if name.endswith("jsonl"):
        lines = raw.splitlines()
        at = int(rng.integers(len(lines)))
        lines[at] = json_of(rng, lines[at])
        return b"\n".join(lines)
    return bytes_of(rng, bytes_of(rng, raw))
