"""Commands that are stopped at a random moment, by SIGKILL, SIGTERM or SIGINT, and typed again.

Each runs in a process of its own, forked from this one. What was stopped leaves the old files or the new ones, and the
same command again ends with the results of one that nobody stopped.
"""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.fuzz import PATIENCE
from tests.fuzz import _commands as commands
from tests.fuzz import _processes as processes

import vitalrank as vr
from vitalrank.checkpoint import is_saved
from vitalrank.checkpoint.layout import current_path

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
FIT = ["fit", "log.tsv", "--out", "new", "--sampler", "uni", "--set", "dim=4", "--threads", "1", "--progress"]
MODEL = ("tensors.safetensors", "ids.arrow")
TOO_SLOW = "no trial came to a result in the time"
LONGEST = 0.2 * PATIENCE  # seconds of a process; for a machine that has nothing else to do a second is enough


@dataclass(frozen=True)
class Job:
    """A command, what to type once it was stopped, and the files that it must end with, bit for bit."""

    words: list[str]
    again: list[str]
    files: tuple[str, ...]
    together: bool = False  # two of it may run at the same time


def same(words: list[str], *files: str, together: bool = False) -> Job:
    return Job(words, words, files, together)


def _in(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in MODEL)


GRID = ["--range", "dim=2,4", "--range", "lr=0.01,0.05", "--method", "grid"]
BEST = ["--models", "mostpopular,itemknn", "--minutes", "0.03"]
JOBS = {
    "fit": Job([*FIT, "--epochs", "30", "--checkpoint-epochs", "3"], [*FIT, "--epochs", "30", "--resume"], _in("new")),
    "fit baseline": same(["fit", "log.tsv", "--out", "new", "--model", "itemknn"], *_in("new")),
    "update": same(["update", "run", "day.tsv", "--epochs", "20", "--threads", "1"], *_in("run")),
    "update elsewhere": Job(
        ["update", "run", "day.tsv", "--out", "new", "--epochs", "20", "--threads", "1"],
        ["update", "run", "day.tsv", "--out", "new", "--epochs", "20", "--threads", "1", "--resume"],
        _in("new"),
    ),
    "tune": same(
        ["tune", "log.tsv", "--out", "new", "--sampler", "uni", "--epochs", "3", "--threads", "1", *GRID],
        "new/best.toml", together=True,
    ),
    "compare": same(
        ["compare", "log.tsv", "--out", "new", "--samplers", "uni", "--seeds", "1", "--baselines", "mostpopular",
         "--epochs", "5", "--threads", "1"],
        "new/results.csv",
    ),
    "best": same(["best", "log.tsv", "--out", "new", *BEST], "new/ids.arrow", together=True),
    "recommend": same(["recommend", "run", "--all", "--out", "recs.parquet"], "recs.parquet"),
    "export": same(["export", "run", "--out", "vectors"], "vectors/items.npy", "vectors/user_ids.npy"),
    "mine": same(["mine", "queries.npy", "items.npy", "pairs.npy", "mined.parquet"], "mined.parquet"),
    "prepare": same(["data", "prepare", "log.tsv", "prepared.parquet"], "prepared.parquet"),
}  # fmt: skip


@cache
def prepared() -> Path:
    """The folder of the commands, with the files of a new day and vectors; everything that is slow is done once."""
    folder = commands.prepared()
    (folder / "day.tsv").write_text("user\titem\ttime\nu1\ti24\t900\nu2\tnew\t901\nsomebody\ti1\t902\nu3\ti23\t903\n")
    pick = np.random.default_rng(0)
    np.save(folder / "queries.npy", pick.normal(size=(20, 4)).astype(np.float32))
    np.save(folder / "items.npy", pick.normal(size=(30, 4)).astype(np.float32))
    np.save(folder / "pairs.npy", np.arange(20))
    return folder


@cache
def undisturbed(name: str) -> tuple[dict[str, str], float]:
    """Digests of the files that a job ends with, and the seconds that it takes."""
    job = JOBS[name]
    with _copy() as place:
        with commands.working_in(place):
            commands.call(job.words)  # here, so that forked processes have what it compiles and imports
        seconds = 0.0
    with _copy() as place:
        begin = time.monotonic()
        assert _ended(_start(job.words, place)) == 0
        seconds = time.monotonic() - begin
        return _digests(job, place), seconds


def case(rng: Random) -> None:
    name = rng.choice(sorted(JOBS))
    job, (wanted, seconds) = JOBS[name], undisturbed(name)
    with _copy() as place:
        log = (place / "log.tsv").read_bytes()
        seen = []
        for _ in range(rng.choice([1, 1, 2, 4])):
            words = job.again if (place / "new" / "model.json").exists() else job.words
            number = 2 if job.together and rng.random() < 0.5 else 1
            started = [_start(words, place) for _ in range(number)]
            time.sleep(rng.uniform(0.0, 1.1 * seconds * number))
            sent = rng.choice(SIGNALS)
            os.kill(started[0], sent)
            codes = [_ended(one) for one in started]
            seen.append((sent, codes))
            allowed = {signal.SIGKILL: (0, -9), signal.SIGTERM: (0, 143, -15), signal.SIGINT: (0, 1)}[sent]
            finished = name in ("update", "fit baseline") and codes[0] == 2  # an earlier one had done it already
            if name == "best" and 2 in codes and TOO_SLOW in _said(place):
                continue
            assert codes[0] in allowed or finished, (name, sent, codes, _said(place))
            assert all(code == 0 for code in codes[1:]), (name, codes, _said(place))
            _check(name, place)
        again = job.again if is_saved(place / "new") or name == "update elsewhere" else job.words
        code = _ended(_start(again, place))
        if name == "best" and code == 2 and TOO_SLOW in _said(place):
            return
        is_done = name in ("update", "fit baseline") and code == 2 and _digests(job, place) == wanted
        assert code == 0 or is_done, (name, code, _said(place), seen)
        assert _digests(job, place) == wanted, (name, again)
        assert (place / "log.tsv").read_bytes() == log
        if name in ("fit", "update elsewhere"):
            assert not list(place.rglob(".vitalrank.*.tmp"))
        for path, text in commands.MINE.items():
            assert (place / path).read_text() == text, path


def _check(name: str, place: Path) -> None:
    """Models are whole: the old one or the new one."""
    assert vr.load(place / "run").train.n_users >= 30
    if is_saved(place / "new"):
        vr.load(place / "new")


def _copy() -> Any:
    return _Copy()


class _Copy:
    """A copy of the prepared folder, removed at the end."""

    def __enter__(self) -> Path:
        self._place = Path(tempfile.mkdtemp(prefix="vitalrank-fuzz-"))
        shutil.copytree(prepared(), self._place / "work")
        return self._place / "work"

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._place, ignore_errors=True)


def _start(words: list[str], place: Path) -> int:
    """The id of a process that runs a command in a folder."""
    return processes.start(lambda: _child(lambda: commands.call(words, (*commands.CODES, 143)), place))


def _child(work: Callable[[], tuple[int, str]], place: Path) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(place)
    try:
        code, said = work()
    except BaseException as error:  # a stop before or after the command; anything else is told
        if isinstance(error, KeyboardInterrupt):
            return 1
        code, said = 71, repr(error)
    (place.parent / f"said {os.getpid()}").write_text(said)
    return code


def _ended(process: int) -> int:
    return processes.exit_code(process, LONGEST)


def _said(place: Path) -> str:
    """What all processes complained about."""
    return "\n".join(path.read_text() for path in place.parent.glob("said *"))


def _digests(job: Job, place: Path) -> dict[str, str]:
    """What a job ended with; times of tables are left out."""
    paths = {name: current_path((place / name).parent, (place / name).name) for name in job.files}
    return {name: _digest(path) if path.exists() else "none" for name, path in paths.items()}


def _digest(path: Path) -> str:
    if path.suffix != ".csv":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return repr([{name: value for name, value in row.items() if "seconds" not in name} for row in rows])
