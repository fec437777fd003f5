"""``best`` and ``update`` with any words, logs and folders: done, or refused in one line; files of others stay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from tests.fuzz import _commands as commands
from tests.fuzz import _mutations as mutations
from tests.fuzz.readers import delimited, mutated

import vitalrank as vr

BEST = ["best", "log.tsv", "--out", "out/new", "--minutes", "0.004", "--epochs", "2", "--threads", "1"]
CHEAP = ["mostpopular", "itemknn", "ease", "als", "mostpopular,itemknn", "mostpopular,mf"]
UPDATE = ["update", "run", "day.tsv", "--threads", "1", "--epochs", "1"]
DAYS = [
    "user\titem\ttime\nu1\ti24\t900\nu2\tnew\t901\nsomebody\ti1\t902\n", "user\titem\nu1\ti24\n", "u1\ti24\n",
    "user\titem\ttime\nu1\ti1\t900\n", "user\titem\ttime\n1\t2\t3\n", "user\titem\ttime\nx\ty\t900\n", "", "\x00",
    "user\titem\ttime\n" + "".join(f"u1\tn{one}\t{one}\n" for one in range(300)),
    "user\titem\ttime\nu1\tn\x1b[2J\t900\n", "user\titem\ttime\nu1\t" + "n" * 60_000 + "\t900\n",
    "user\titem\ttime\nu1\ti24\t-9e18\nu1\tn\t9e18\n", "user\titem\ttime\nu1\tn\tnan\n",
]  # fmt: skip


def case(rng: Random) -> None:
    with commands.copy() as folder:
        (folder / "day.tsv").write_bytes(mutated(rng, delimited(rng)) if rng.random() < 0.2 else _day(rng))
        before = (folder / "day.tsv").read_bytes()
        (folder / "out" / "new").mkdir()
        (folder / "out" / "new" / "notes.txt").write_text("mine")
        words = _best(rng, folder) if rng.random() < 0.5 else _update(rng, folder)
        kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and _is_mine(path, words)}
        forced = "--force" in words
        code, said = commands.call(words)
        assert code != 0 or "error:" not in said, (words, said)
        assert (folder / "day.tsv").read_bytes() == before, words
        if not forced:
            for path, content in kept.items():
                assert path.read_bytes() == content, (words, path)
        if code == 0 and "out/new" in words and (folder / "out" / "new" / "model.json").exists():
            _check(folder / "out" / "new")
        if words[:2] == ["update", "run"] and code == 0 and "--help" not in words:
            _check(folder / "run")


def _day(rng: Random) -> bytes:
    return rng.choice(DAYS).encode()


def _is_mine(path: Path, words: list[str]) -> bool:
    """Files that no command may change."""
    return path.name in ("log.tsv", "notes.txt", "mine.toml", "mine.csv", "results.csv", "theirs") or (
        words[0] == "best" and path.parent.name == "run"
    )


def _best(rng: Random, folder: Path) -> list[str]:
    """A search, maybe in a folder that holds something already."""
    words = [*BEST, "--models", rng.choice(CHEAP)]
    place = folder / "out" / "new"
    choice = rng.random()
    if choice < 0.25:
        name = rng.choice(["best.json", "best.toml", "report.html", "results.md", "study.db", "model.json", "finals"])
        (place / name).write_text("mine")
        (place / name).rename(place / "theirs"), (place / name).symlink_to("theirs")
    elif choice < 0.4:
        commands.call(words)
        victims = [path for path in place.rglob("*") if path.is_file() and path.name != "notes.txt"]
        victim = rng.choice(victims)
        if victim.suffix == ".json" and rng.random() < 0.7:
            victim.write_text(json.dumps(mutations.mutate_json(rng, json.loads(victim.read_text()))))
        else:
            mutations.mutate_bytes(rng, victim)
    options = commands.chosen(rng, "best")
    return [*words, *_bounded(options)]


def _bounded(options: list[str]) -> list[str]:
    """Minutes that are over soon."""
    return [
        "0.005" if before == "--minutes" and word.isascii() and word[:1].isdigit() else word
        for before, word in zip(["", *options], options, strict=False)
    ]


def _update(rng: Random, folder: Path) -> list[str]:
    """An update, maybe of a folder that a stranger changed, or to one that holds something."""
    words = list(UPDATE)
    if rng.random() < 0.3:
        run = folder / "run"
        meta = mutations.read_meta(run)
        if rng.random() < 0.5:
            meta = mutations.mutate_json(rng, meta)
        else:
            mutations.mutate_tensors(rng, run)
        mutations.match_digests(run, meta)
    if rng.random() < 0.3:
        words += ["--out", rng.choice(["out/new", "out/new", "run", "notes.txt", "day.tsv", "out"])]
        if rng.random() < 0.3:
            shutil.copytree(folder / "run", folder / "out" / "new", dirs_exist_ok=True)
            words += ["--resume"] * rng.randrange(2)
    return [*words, *commands.chosen(rng, "update")]


def _check(run: Path) -> None:
    model = vr.load(run)
    model.recommend(model.train.user_ids[:3], n=3)
