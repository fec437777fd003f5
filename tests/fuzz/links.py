"""Links where a writer may put a file, and files of others under its names: what they lead to stays as it is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz.readers import check_message

import vitalrank as vr
from vitalrank import comparing, datasets
from vitalrank._util.files import write_text
from vitalrank._util.outputs import write_recorded
from vitalrank.mining import mine_to
from vitalrank.serving.streaming import recommend_all

NEW = ".vitalrank.new"
MODEL = ["model.json", "tensors.safetensors", "ids.arrow", NEW, ".vitalrank.lock", ".vitalrank.0123abcd.tmp"]
RECORD = [".vitalrank.files.json", ".vitalrank.files.lock", ".vitalrank-0123456789abcdef.part"]


@cache
def log() -> Any:
    return vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)


@cache
def model() -> Any:
    return vr.MF(dim=4).fit(log(), vr.Uniform(), epochs=1, threads=1)


@cache
def results() -> Any:
    return vr.compare(log(), ["uni"], seeds=1, baselines=(), config=vr.TrainConfig(epochs=1, threads=1))


def _fit(folder: Path) -> None:
    vr.MF(dim=4).fit(log(), vr.Uniform(), epochs=2, threads=1, checkpoint=folder, checkpoint_epochs=1)


def _compare(folder: Path) -> None:
    config = vr.TrainConfig(epochs=1, threads=1)
    vr.compare(log(), ["uni"], seeds=1, baselines=(), config=config, out=folder)


def _mine(folder: Path) -> None:
    vectors = np.eye(9, 3, dtype=np.float32)
    mine_to(folder / "mined.parquet", vectors, vectors, np.arange(9), 1, threads=1)


# What writes into a folder, and names that it uses there or might.
WRITERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "save": (lambda folder: model().save(folder), MODEL),
    "fit": (_fit, MODEL),
    "card": (lambda folder: model().card(folder), ["README.md", "README.md.part"]),
    "export": (lambda folder: model().export(folder), ["items.npy", "users.npy", "item_ids.npy", ".draft-0"]),
    "recommend": (
        lambda folder: recommend_all(model(), folder / "recs.parquet"),
        ["recs.parquet"],
    ),
    "page": (lambda folder: vr.report.write_report(model(), folder / "p.html"), ["p.html", "p.html.part"]),
    # A link to a folder in the place of "runs" is followed: the user's way to keep the runs on another disk.
    "compare": (_compare, ["comparison.json", ".vitalrank.lock"]),
    "tables": (lambda folder: comparing.write_tables(results(), folder), ["results.csv", "results.md", "results.tex"]),
    "recorded": (lambda folder: write_recorded(folder / "best.toml", "a = 1\n"), ["best.toml", "best.toml.part"]),
    "mine": (_mine, ["mined.parquet", "mined.parquet.part"]),
    "log": (lambda folder: datasets.prepare(_raw(), folder / "log.parquet"), ["log.parquet", "log.parquet.part"]),
    "prepared": (lambda folder: vr.prepare_log(_raw(), folder), ["prepared.json", "data-0", ".vitalrank.lock"]),
}


@cache
def _raw() -> Path:
    path = Path(tempfile.mkdtemp()) / "raw.csv"
    write_text(path, "user,item\n" + "".join(f"{row % 7},{row % 5}\n" for row in range(35)))
    return path


def case(rng: Random) -> None:
    write, names = WRITERS[rng.choice(sorted(WRITERS))]
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as place:
        folder, mine = Path(place) / "out", Path(place) / "mine"
        folder.mkdir()
        _fill(mine)
        for name in rng.sample([*names, *RECORD], rng.choice([1, 1, 2, 3])):
            _place(rng, folder / name, mine)
        foreign = _files(folder)
        before = _content(mine)
        try:
            write(folder)
        except vr.VitalrankError as error:
            check_message(str(error))
            raise
        finally:
            assert _content(mine) == before
            after = _files(folder)
            assert {path: after.get(path) for path in foreign} == foreign


def _fill(mine: Path) -> None:
    """A folder of the user's: notes, and a model."""
    model().save(mine / "model")
    (mine / NEW).mkdir()
    (mine / "notes.txt").write_text("mine")


def _place(rng: Random, path: Path, mine: Path) -> None:
    """A link to something of the user's, to nothing or to itself, or a file that is the user's."""
    target = rng.choice([mine / "notes.txt", mine / "model", mine / NEW, mine / "model" / "model.json", path, "file"])
    if target == "file":
        path.write_text("mine")
    else:
        path.symlink_to(target)


def _files(folder: Path) -> dict[Path, bytes]:
    """Files that are not links and have no name that is the library's own."""
    found = (path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    return {path: path.read_bytes() for path in found if not path.name.startswith(".vitalrank")}


def _content(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
