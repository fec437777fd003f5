"""From files of any size to a prepared log."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa

from vitalrank._util.checks import check_choice, check_count
from vitalrank._util.display import first_line, printable
from vitalrank.errors import StorageError, VitalrankError
from vitalrank.interactions import Interactions
from vitalrank.interactions.cutoffs import Time
from vitalrank.interactions.encoding import numbers_of
from vitalrank.interactions.weighting import REPEATS, check_repeats, check_weights
from vitalrank.prepared import Prepared, PreparedWriter
from vitalrank.preparing.blocks import Blocks
from vitalrank.preparing.budget import Budget, to_bytes
from vitalrank.preparing.merging import MergedIds, merge_ids
from vitalrank.preparing.parting import SplitSettings
from vitalrank.preparing.scanning import SpillingCollector
from vitalrank.preparing.storing import Core, StoredBlocks, core_of
from vitalrank.readers import Column, Paths, collect

logger = logging.getLogger(__name__)
OnStage = Callable[[str], None]


def prepare_log(
    source: Paths,
    out: str | os.PathLike[str],
    *,
    user: Column = None,
    item: Column = None,
    time: str | int | bool | None = None,
    weight: str | int | None = None,
    repeats: str = "first",
    sep: str | None = None,
    header: bool | None = None,
    on_bad: str = "raise",
    min_user: int = 0,
    min_item: int = 0,
    split: str = "last",
    test: float = 0.0,
    valid: float = 0.0,
    cutoff: Time | None = None,
    memory: str | int = "1GiB",
    temp: str | os.PathLike[str] | None = None,
    progress: OnStage | None = None,
) -> Prepared:
    """Code, deduplicate, sort and split a log that may be larger than memory, and write it as a prepared log.

    What comes out is what `vitalrank.read`, `Interactions.k_core` and the split give in memory, bit for bit.

    Parameters
    ----------
    source, user, item, time, weight, repeats, sep, header, on_bad
        As for `vitalrank.read`.
    out
        The folder to write; one that holds anything but a prepared log is refused. It changes only once all is done: a
        preparation that was killed leaves what was there, and the next one clears away what it left.
    min_user, min_item
        Least rows per user and item, as `Interactions.k_core`.
    split, test, valid, cutoff
        What is held out: ``"last"`` or ``"time"`` with shares, as `Interactions.split_last` and
        `Interactions.split_time`; ``"loo"`` holds out each user's last row (and the one before it for ``valid`` above
        0). Without ``test`` and ``valid`` the log stays whole.
    memory
        What the process may take at most, such as ``"2GiB"``.
    temp
        A folder for temporary files, which take about 50 bytes a row and each id's text once per run; by default
        ``out``.
    progress
        Called with the name of each stage as it begins.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "log.csv").write_text("user,item\\nann,7\\nbob,7\\nann,9\\nann,7\\n")
    >>> prepared = prepare_log(folder / "log.csv", folder / "prepared")
    >>> prepared.log(), prepared.user_ids
    (Interactions(2 users, 2 items, 3 rows; dropped: 1 repeats), array(['ann', 'bob'], dtype=object))
    """
    check_choice("on_bad", on_bad, ("raise", "skip"))
    check_repeats(repeats, REPEATS)
    for name, least in (("min_user", min_user), ("min_item", min_item)):
        check_count(name, least, least=0)
    parting = SplitSettings(split, test, valid, cutoff)
    made = {"source": printable(source, 200), "repeats": repeats, "min_user": min_user, "min_item": min_item}
    made |= {"split": split, "test": test, "valid": valid, "cutoff": None if cutoff is None else str(cutoff)}
    budget = Budget(to_bytes(memory))
    with PreparedWriter(out) as writer, _scratch(writer, temp) as scratch:
        stage = _Stages(progress)
        stage("reading")
        collector = SpillingCollector(on_bad == "skip", scratch, budget.collected)
        collect(source, (user, item, time, weight), sep, header, collector)
        collector.spill()
        collector.report(printable(source, 200))
        stage("numbering ids")
        users, items = (merge_ids(collector.runs, side, scratch, budget) for side in ("users", "items"))
        stage("sorting")
        blocks = Blocks(collector.runs, users.length, budget.rows, scratch)
        logs = _some_weighted(blocks.logs(items.length, repeats))
        core = None
        dropped = 0
        if min_user or min_item or parting.reads_times:
            stored = StoredBlocks(scratch, logs)
            dropped, logs = stored.repeats, stored.logs()
            if min_user or min_item:
                stage("filtering")
                core = core_of(stored, min_user, min_item)
                logs = core.filtered(stored.logs())
            if core is not None and parting.reads_times:
                stored = StoredBlocks(_emptied(scratch / "filtered"), logs)
                logs = stored.logs()
            splitter = parting.splitter(lambda: (times for _, arrays in stored.pieces("times") for times in arrays))
        else:
            splitter = parting.splitter(None)
        stage("writing")
        _write_ids(writer, users, items, core)
        for _, log in logs:
            dropped += log.repeats
            for name, part in splitter(log).items():
                writer.add_rows(name, part)
        writer.publish(made, dropped, collector.skipped)
        stage(None)
    return Prepared.open(out)


class _Stages:
    """Reports each stage as it begins, and in the program's log how long it took."""

    def __init__(self, progress: OnStage | None) -> None:
        self._progress = progress
        self._name: str | None = None
        self._begun = monotonic()

    def __call__(self, name: str | None) -> None:
        now = monotonic()
        if self._name is not None:
            logger.info("%s: %.1f s", self._name, now - self._begun)
        self._name, self._begun = name, now
        if name is not None and self._progress is not None:
            self._progress(name)


def _some_weighted(logs: Iterator[tuple[int, Interactions]]) -> Iterator[tuple[int, Interactions]]:
    """The same blocks; `DataError` after the last one if the rows that are kept all have weight 0."""
    sums = []
    for first, log in logs:
        if log.weights is not None:
            sums.append(log.weights.max(initial=0.0))
        yield first, log
    if sums:
        check_weights(np.array(sums, np.float32))


def _write_ids(writer: PreparedWriter, users: MergedIds, items: MergedIds, core: Core | None) -> None:
    for side, ids in (("users", users), ("items", items)):
        first = 0
        for piece in ids:
            kept = piece
            if core is not None:
                mask = getattr(core, side)[first : first + len(piece)]
                kept = piece.filter(pa.array(mask))
            first += len(piece)
            writer.add_ids(side, numbers_of(kept) if pa.types.is_integer(kept.type) else kept)


@contextmanager
def _scratch(writer: PreparedWriter, temp: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of temporary files: inside what the writer makes, or in another folder under a name of its own."""
    if temp is None:
        folder = writer.arrays / "scratch"
    else:
        name = hashlib.sha256(os.fsencode(writer.folder.resolve())).hexdigest()[:12]
        folder = Path(temp) / f"vitalrank-prepare-{name}"  # a killed preparation's, too
    where = printable(folder.parent if temp is not None else writer.folder)
    try:
        yield _emptied(folder)
    except VitalrankError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            advice = "no space is left for temporary files; free some or give another folder as temp (--temp)"
        else:
            advice = f"temporary files cannot be written or read ({first_line(error)}); give another folder as temp"
        raise StorageError(f"{where}: {advice}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
