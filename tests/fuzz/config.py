"""Config files of any content for every command that takes one: taken, or refused in one line."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.fuzz import _commands as commands

START = {
    "fit": ["log.tsv", "--out", "out/new", "--threads", "1"],
    "compare": ["log.tsv", "--out", "out/new", "--threads", "1"],
    "tune": ["log.tsv", "--out", "out/new", "--threads", "1"],
}
SMALL = {
    "fit": "epochs = 1\nsampler = 'uni'\n",
    "compare": "epochs = 1\nsamplers = 'uni'\nseeds = 1\nbaselines = 'none'\n",
    "tune": "epochs = 1\ntrials = 1\n",
}
VALUES = [
    "1", "2", "0", "-1", "0.5", "nan", "inf", "1e400", "9" * 30, "9" * 5000, "true", "false", "''", "'abc'", "'vins'",
    "'uni,dns'", "[]", "[1, 'a']", "[[1]]", "{}", "{a = 1}", "{a = {b = {c = 1}}}", "1979-05-27", "07:32:00",
    '"\\u0000"', '"\\u001b[2J"', "'''\nx'''", "[" * 3000 + "]" * 3000, "'none'", "'notes.txt'", "'log.tsv'",
]  # fmt: skip
TABLES = ["set", "range", "nope", "sets.x", '""', "epochs"]
BROKEN = ["\ufeff", "\x00", "=", "[", "]]", "a = ", "a.b.c = 1", "a = 1\na = 2", "'", '"""', "# \x07", "\r", "[[set]]"]


def case(rng: Random) -> None:
    command = rng.choice(sorted(START))
    with commands.copy() as folder:
        path = folder / "conf.toml"
        path.write_bytes(content(rng, command))
        before = path.read_bytes()
        words = [command, *START[command], "--config", "conf.toml"]
        if rng.random() < 0.3:
            words += ["--save-config", rng.choice(["saved.toml", "conf.toml", "notes.txt", "log.tsv", "mine.toml"])]
        code, said = commands.call(words)
        assert code != 0 or "error:" not in said, (words, said)
        commands.check_kept(folder, forced=b"force" in before)
        assert path.read_bytes() == before


def content(rng: Random, command: str) -> bytes:
    """Lines of keys with values, most of them of the command."""
    names = [max(one.opts, key=len).lstrip("-") for one in commands.parameters(command)]
    given: dict[str, Any] = {}
    for _ in range(rng.randrange(4)):
        key = rng.choice(names) if rng.random() < 0.9 else rng.choice(["nope", "log", "out", "a b", ""])
        given[key] = commands.value(rng, key.replace("-", "_")) if rng.random() < 0.5 else None
    lines = [line for line in SMALL[command].splitlines() if line.split()[0] not in given]
    for key, word in given.items():
        written = rng.choice(VALUES) if word is None else json.dumps(word)
        if key in ("epochs", "trials", "seeds", "tune") and written.strip("'\"").isdecimal():
            written = "1"
        lines.append(f"{key if key.replace('-', '').isalnum() else json.dumps(key)} = {written}")
    if rng.random() < 0.4:
        lines.append(f"[{rng.choice(TABLES)}]")
        lines += [f"{rng.choice(['dim', 'beta', 'lr', 'uni.reg', 'mf'])} = {rng.choice(VALUES)}"]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        place = rng.randrange(len(data) + 1)
        data = data[:place] + rng.choice([*(one.encode() for one in BROKEN), b"\xff\xfe", b"\x80"]) + data[place:]
    return data
