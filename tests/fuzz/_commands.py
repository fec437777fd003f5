"""Commands in this process, in a folder with a log, a model and files of the user's that must stay as they are."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer

import vitalrank as vr
from vitalrank import cli

MINE = {"notes.txt": "mine", "mine.toml": "epochs = 1\n", "out/mine.csv": "a,b\n1,2\n", "results.csv": "label,mine\n"}
CODES = (0, 1, 2)
WORDS = [
    "", "0", "1", "2", "-1", "0.5", "1e400", "nan", "inf", "-inf", "9" * 30, "2147483647", "2147483648",
    "9223372036854775807", "1e18", "1e308", "0x10", "\u0661", "abc", "a,b", ",", "=",
    "a=b", "a=", "=b", "beta=2", "dim=4", "dim=0", "dim=abc", "reg=1e-3..1e-1:log", "lr=2..1", "dim=4,8", "vins.beta=1",
    "uni.x=1", "none", "vins", "uni", "mf", "itemknn", "als", "ease", "mostpopular", "cml", "irgan", "fpmc", "marank",
    "sgd", "adam", "bpr", "hinge", "cosine", "ndcg@10", "ndcg@0", "recall@-1", "x@y", "@", "cpu", "cuda", "cuda:99",
    "auto", "bfloat16", "user", "item", "time", "tpe", "grid", "random", "median", "paper", "wide", "skip", "test",
    "valid", "degree", "popularity", "table1", "all", "u1", "i1", "--", "-x", "--nope", "[bold]", "\x1b[2J", "\u202e",
    "\udcff", "a\nb", "../..", "log.tsv", "run", "out", "out/new", "notes.txt", "mine.toml", "conf.toml", "results.csv",
    ".", "/dev/null", "no/such", "run/model.json", "sqlite:///x.db", "sqlite:////no/such/x.db", "a?b", "a%20b", "1/3",
    "3/1", "history.txt", "vectors.npy", "pairs.npy", "[/x]", "parquet", "safetensors", "genre=a", "loo", "sum",
]  # fmt: skip
_TIMES = 3  # of what costs time: epochs, trials, seeds


@cache
def prepared() -> Path:
    """A folder with a small log and a run of it."""
    folder = Path(tempfile.mkdtemp())
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)
    rows = zip(log.user_ids[log.users], log.item_ids[log.items], range(len(log)), strict=True)
    (folder / "log.tsv").write_text("user\titem\ttime\n" + "".join(f"u{u}\ti{i}\t{t}\n" for u, i, t in rows))
    with working_in(folder):
        call(["fit", "log.tsv", "--out", "run", "--epochs", "1", "--set", "dim=4", "--sampler", "uni"])
    for name, text in MINE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def copy() -> Iterator[Path]:
    """A copy of the folder, as the working directory; its files are as they were at the end."""
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        folder = Path(place) / "work"
        shutil.copytree(prepared(), folder)
        with working_in(folder):
            yield folder


def check_kept(folder: Path, forced: bool) -> None:
    """Files of the user's are as they were; with --force the log and the model are."""
    for name, text in {} if forced else MINE.items():
        assert (folder / name).read_text() == text, f"{name} was changed"
    for name in ("log.tsv", "run/model.json", "run/tensors.safetensors"):
        assert (folder / name).read_bytes() == (prepared() / name).read_bytes(), f"{name} was changed"


def call(words: Sequence[str], codes: Sequence[int] = CODES) -> tuple[int, str]:
    """The exit code of a command, one of those given, and its lines on standard error."""
    before, sys.argv = sys.argv, ["vitalrank", *words]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
        said = err.getvalue()
        assert code in codes, (words, code, said)
        assert "Traceback" not in said, (words, said)
        assert "unexpected " not in said or "Please report" not in said, (words, said)
        if code == 2 and "error:" in said:
            assert "".join(said.splitlines()).isprintable(), repr(said)
        return code, said
    finally:
        sys.argv = before
        cli.app.registered_commands.clear()
        cli.app.registered_groups.clear()
    raise AssertionError("a command returned")


@cache
def parameters(command: str) -> list[Any]:
    """The options and arguments of a command, as click knows them."""
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.add_command(app, command)
    group: Any = typer.main.get_command(app)
    return list(group.commands[command].params)


def value(rng: Random, name: str) -> str:
    """Something to type for an option; numbers that cost time stay small."""
    word = rng.choice(WORDS)
    slow = name in ("epochs", "trials", "seeds", "tune", "finalists", "runoff_seeds", "workers", "patience")
    if slow and word.strip().lstrip("-").isdecimal() and int(word) > _TIMES:
        return str(_TIMES)
    return word


def chosen(rng: Random, command: str, least: int = 0) -> list[str]:
    """A few options of a command with values."""
    options = [one for one in parameters(command) if one.opts[0].startswith("-")]
    words: list[str] = []
    for one in rng.sample(options, min(len(options), rng.choice([0, 1, 1, 2, 3, 5]) + least)):
        flag = rng.choice([*one.opts, *one.secondary_opts])
        if flag in ("--help", "-h"):
            continue
        words.append(flag)
        if not getattr(one, "is_flag", False):
            words.append(value(rng, one.name))
    return words
