"""Any words after any command: exit code 0, 1 or 2, one line of explanation, and no file of others changed."""

from __future__ import annotations

from random import Random

import numpy as np
from tests.fuzz import _commands as commands

RUN = ("--epochs", "2", "--threads", "1")
START = {
    "fit": ["log.tsv", "--out", "out/new", *RUN],
    "compare": ["log.tsv", "--out", "out/new", "--samplers", "uni", "--seeds", "1", "--baselines", "none", *RUN],
    "tune": ["log.tsv", "--out", "out/new", "--trials", "1", *RUN],
    "evaluate": ["run"],
    "card": ["run"],
    "recommend": ["run", "--user", "u1"],
    "similar": ["run", "--item", "i1"],
    "inspect": ["run"],
    "fold-in": ["run", "--history", "history.txt"],
    "explain": ["run", "--user", "u1", "--item", "i1"],
    "export": ["run", "--out", "out/new"],
    "mine": ["vectors.npy", "vectors.npy", "pairs.npy", "out/new.parquet"],
    "serve": ["run", "--host", "203.0.113.1"],  # refused: nobody may listen there without a token
}
REFUSED = {"paper": ["--data", "no/such"], "doctor": ["--nope"], "demo": ["--epochs", "0"]}  # too slow to let them run
DATA = [
    "list", "list --json", "get nope", "get ''", "prepare", "prepare log.tsv out/new.parquet", "prepare nope x",
    "prepare log.tsv notes.txt", "prepare log.tsv log.tsv --force", "prepare *.tsv log.tsv --force",
    "prepare . log.tsv", "prepare log.tsv run/model.json", "prepare run/ids.arrow x", "prepare log.tsv out",
    "prepare log.tsv --out out/new", "prepare log.tsv --out out", "prepare log.tsv --out run --force",
    "prepare log.tsv --out log.tsv", "prepare log.tsv --out out/new --test 0.2 --memory 1", "prepare run --out out/new",
]  # fmt: skip
HISTORIES = [
    "i1 i2\n",
    "[1, 2]\n",
    '["i1", null, {}]\n',
    "[[]]",
    "[" * 90_000,
    "",
    "\x00",
    "i1,,\x1b[2J\n[1e999]\n",
    "[]\n",
]


def case(rng: Random) -> None:
    words = line(rng)
    with commands.copy() as folder:
        (folder / "history.txt").write_text(rng.choice(HISTORIES))
        np.save(folder / "vectors.npy", np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32))
        np.save(folder / "pairs.npy", np.arange(9))
        code, said = commands.call(words)
        assert code != 0 or "error:" not in said, (words, said)
        commands.check_kept(folder, forced="--force" in words)


def line(rng: Random) -> list[str]:
    choice = rng.random()
    if choice < 0.04:
        return [rng.choice(commands.WORDS) for _ in range(rng.randrange(4))]
    if choice < 0.1:
        return ["data", *rng.choice(DATA).replace("''", "").split()]
    if choice < 0.14:
        name = rng.choice(sorted(REFUSED))
        return [name, *([rng.choice(commands.WORDS)] if name == "paper" else []), *REFUSED[name]]
    name = rng.choice([*START, "fit", "fit", "tune"])
    words = list(START[name])
    if name == "recommend" and rng.random() < 0.4:
        words = ["run", *rng.choice([["--all", "--out", "out/new.parquet"], ["--history", "history.txt"]])]
    if name == "evaluate" and rng.random() < 0.4:
        words += ["--shard", rng.choice(["1/2", "2/2", "3/2"]), "--out", rng.choice(["out/new.npz", "run/model.json"])]
    if rng.random() < 0.1:  # leave something out, or add a stray word
        del words[rng.randrange(len(words))]
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice(commands.WORDS))
    return [name, *words, *commands.chosen(rng, name)]
