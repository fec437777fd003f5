"""Files of any content: random bytes, and mutated logs of every format, packed or not, with options of any kind."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import vitalrank as vr

# Of the processor: far above what any input needs, far below what a quadratic reader takes.
SECONDS, SECONDS_PER_MIB = 30.0, 60.0
TOKENS = [
    b'"', b'""', b",", b"\t", b"::", b"\n", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"{", b"}", b"[", b"'", b"\\",
    b"nan", b"-1", b"1e400", b"0x" + b"f" * 5000, b"9" * 400, b"2020-01-01", b"9999-12-31T23:59:59Z", b"null",
    b"user", b"item", b"time", b"\x1b[2J", "\u202e".encode(), b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b" ", b"",
    b"\\ud800",
]  # fmt: skip
COLUMNS = [None, None, None, "user", "item", "t", 0, 1, 2, -1, True, "\udcff"]


def rows_of(rng: Random) -> list[tuple[Any, Any, Any]]:
    names = rng.random() < 0.5
    count = rng.choice([1, 3, 200, 3000])
    return [(f"u{rng.randrange(50)}" if names else rng.randrange(50), rng.randrange(99), n) for n in range(count)]


def delimited(rng: Random) -> bytes:
    sep, header = rng.choice([",", "\t", "::", ";", "|"]), rng.random() < 0.7
    lines = [sep.join(map(str, row)) for row in rows_of(rng)]
    return "\n".join(([sep.join(("user", "item", "time"))] if header else []) + lines).encode()


def records(rng: Random) -> bytes:
    write: Callable[[Any], str] = rng.choice([json.dumps, repr])
    return "\n".join(write({"user": u, "item": i, "time": t}) for u, i, t in rows_of(rng)).encode()


def parquet(rng: Random) -> bytes:
    users, items, times = map(list, zip(*rows_of(rng), strict=True))
    when = pa.array(times, pa.int64())
    if rng.random() < 0.4:
        scale = rng.choice([1, 10**9, 10**14, -(10**15)])
        when = pa.array([value * scale for value in times], pa.int64()).cast(pa.timestamp(rng.choice(["us", "ns"])))
    who: Any = pa.array(users)
    if rng.random() < 0.3:
        who = who.dictionary_encode()
    if rng.random() < 0.2:
        who = pa.array([None if rng.random() < 0.1 else value for value in users])
    file = io.BytesIO()
    table = pa.table({"user": who, "item": items, rng.choice(["time", "t", "x.y"]): when})
    pq.write_table(table, file, compression=rng.choice(["none", "zstd"]), store_schema=rng.random() < 0.5)
    return file.getvalue()


def noise(rng: Random) -> bytes:
    if rng.random() < 0.5:
        return rng.randbytes(rng.choice([1, 7, 100, 5000]))
    return b"".join(rng.choice(TOKENS) for _ in range(rng.choice([1, 10, 1000])))


def repeated(rng: Random) -> bytes:
    """A short line many times: where a reader is quadratic, this shows it."""
    line = b"".join(rng.choice([b"a", b'"', b'""', b",", b"1", b"\t", b"'"]) for _ in range(rng.randrange(1, 9)))
    return b"user,item\n" + (line + b"\n") * 20_000


def mutated(rng: Random, data: bytes) -> bytes:
    for _ in range(rng.choice([0, 1, 1, 3, 20])):
        begin = rng.randrange(len(data) + 1)
        end = begin + rng.choice([0, 0, 1, 1, 5, 100])
        data = data[:begin] + (rng.choice(TOKENS) if rng.random() < 0.6 else rng.randbytes(1)) + data[end:]
    return data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data


def packed(rng: Random, data: bytes) -> bytes:
    chosen = rng.random()
    if chosen < 0.1:
        return gzip.compress(data)
    return bytes(pa.compress(data, "zstd", asbytes=True)) if chosen < 0.2 and data else data


def options_of(rng: Random) -> dict[str, Any]:
    options: dict[str, Any] = {"on_bad": rng.choice(["raise", "skip"])}
    if rng.random() < 0.3:
        options |= {name: rng.choice(COLUMNS) for name in ("user", "item", "time")}
    if rng.random() < 0.1:
        options["sep"] = rng.choice([",", "::", "", "\udcff", "\n", "\u20ac"])
    if rng.random() < 0.2:
        options["header"] = rng.random() < 0.5
    return options


def check_message(text: str) -> None:
    assert text.isprintable(), repr(text)
    assert len(text) < 3000, len(text)


def case(rng: Random) -> None:
    """One file, or two in a folder."""
    make = rng.choice([delimited, delimited, records, parquet, noise, repeated])
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as folder:
        size = 0
        for name in ("a", "b")[: 1 if rng.random() < 0.9 else 2]:
            data = mutated(rng, packed(rng, mutated(rng, make(rng))))
            (Path(folder) / name).write_bytes(data)
            size += len(data)
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                vr.read(folder if (Path(folder) / "b").exists() else Path(folder) / "a", **options_of(rng))
        except vr.VitalrankError as error:
            check_message(str(error))
            raise
        finally:
            taken = time.process_time() - begin
            assert taken < SECONDS + SECONDS_PER_MIB * size / 2**20, f"{taken:.0f} s for {size:,} bytes"
