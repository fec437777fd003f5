"""What happened in each epoch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, overload

from vitalrank._util.files import write_text

Record = dict[str, Any]
_SAVED: dict[str, type] = {  # beside the records, in a saved model
    "sampler": str,
    "settings": dict,
    "best_epoch": int,
    "stopped": str,
    "start": dict,
}


class History(Sequence[Record]):
    """One record per epoch.

    A record holds ``epoch``, ``lr`` (at its start), ``loss`` (mean over positives, without L2), ``tries`` (mean draws
    per positive, for all its negatives together), ``vanished`` (share of positives whose loss has a slope below 0.01
    for every negative, weights aside), ``unviolated`` (share for which at least one negative is not within the margin,
    since no candidate was, or None), ``skipped`` (positives of users who have seen every item), ``seconds`` (training
    alone) and the metrics on the validation log.

    Attributes
    ----------
    sampler, settings
        How it was trained: the sampler as it shows itself, and the settings that decide what is computed.
    best_epoch
        The epoch that is kept, where a validation log picked one.
    stopped
        Why training ended: ``"finished"``, ``"patience"``, ``"callback"`` or ``"interrupted"``.
    start
        Of a warm start: how the model was first fitted (``settings``, ``epochs``) and how many ``updates`` followed.

    Examples
    --------
    >>> history = History([{"epoch": 1, "loss": 0.69}, {"epoch": 2, "loss": 0.5}])
    >>> history[-1]["loss"], len(history)
    (0.5, 2)
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self.records: list[Record] = [dict(record) for record in records]
        self.sampler: str | None = None
        self.settings: dict[str, Any] | None = None
        self.best_epoch: int | None = None
        self.stopped: str | None = None
        self.start: dict[str, Any] | None = None

    @classmethod
    def from_saved(cls, saved: Mapping[str, Any]) -> History:
        """The history in a saved model's record; ``fit`` is missing where an older version wrote it."""
        history = cls(checked_records(saved["history"]))
        fit = saved.get("fit", {})
        if not isinstance(fit, Mapping):
            raise ValueError("fit is no record")
        for name, kind in _SAVED.items():
            value = fit.get(name)
            if value is not None and not _is(value, kind):
                raise ValueError(f"{name} is {value!r}")
            setattr(history, name, value)
        return history

    def to_save(self) -> dict[str, Any]:
        """What a saved model's record holds of it."""
        return {"history": self.records, "fit": {name: getattr(self, name) for name in _SAVED}}

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __repr__(self) -> str:
        best = "" if self.best_epoch is None else f", best epoch {self.best_epoch}"
        return f"History({len(self)} epochs{best})"

    def to_frame(self) -> Any:
        """The records as a pandas frame, or as an Arrow table where pandas is not installed.

        Examples
        --------
        >>> History([{"epoch": 1, "loss": 0.5}]).to_frame().shape
        (1, 2)
        """
        try:
            import pandas
        except ImportError:
            import pyarrow

            return pyarrow.Table.from_pylist(self.records)
        return pandas.DataFrame(self.records)

    def to_jsonl(self, path: str | os.PathLike[str] | None = None) -> str:
        r"""The records as JSON lines; also written to ``path`` if one is given.

        Examples
        --------
        >>> History([{"epoch": 1, "loss": 0.5}]).to_jsonl()
        '{"epoch": 1, "loss": 0.5}\n'
        """
        from vitalrank.checkpoint import to_json

        text = "".join(to_json(record) + "\n" for record in self.records)
        if path is not None:
            write_text(Path(path), text)
        return text


def checked_records(found: object) -> list[Record]:
    """The records of epochs 1, 2, ... as JSON gave them; ValueError for anything else.

    Examples
    --------
    >>> checked_records([{"epoch": 2}])
    Traceback (most recent call last):
    ...
    ValueError: record 1 is not that of epoch 1
    """
    if not isinstance(found, list):
        raise ValueError("the history is no list of records")
    for number, record in enumerate(found, start=1):
        if not isinstance(record, dict) or not _is(record.get("epoch"), int) or record["epoch"] != number:
            raise ValueError(f"record {number} is not that of epoch {number}")
        for name in ("loss", "lr", "tries", "seconds"):
            if name in record and not _is(record[name], int | float):
                raise ValueError(f"{name} of epoch {number} is {record[name]!r}, not a number")
    return found


def _is(value: object, kind: type | UnionType) -> bool:
    """Whether a value of JSON is of a kind; True and False are no numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)
