"""The logs of a study: where each lies, how it is filtered, how it is cut."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from vitalrank.datasets import load
from vitalrank.interactions import Interactions

PAPER_CORE = 10
# Logs that the paper's 10-core on both sides would leave too little of.
SMALLER_CORES = {"steam": 5, "amazon-games": 5, "lastfm": 5, "yelp-2019": 5}
TEST, VALID = 0.2, 0.1


@dataclass(frozen=True)
class Source:
    """A log by its place and the filter it goes through.

    Examples
    --------
    >>> Source.of("data/steam.tsv.gz"), Source.of("data/yelp.tsv.gz", min_item=0).name
    (Source(name='steam', path='data/steam.tsv.gz', min_user=5, min_item=5), 'yelp')
    """

    name: str
    path: str
    min_user: int
    min_item: int

    @classmethod
    def of(cls, path: str | PathLike[str], min_user: int | None = None, min_item: int | None = None) -> Source:
        """A file with the preset filter of its name: the paper's 10-core, or 5-core for the small ones."""
        name = Path(path).name.split(".")[0]
        core = SMALLER_CORES.get(name, PAPER_CORE)
        return cls(name, str(path), core if min_user is None else min_user, core if min_item is None else min_item)

    def identity(self) -> dict[str, Any]:
        """What results depend on: everything but the place, and what is in the log."""
        known = {name: value for name, value in asdict(self).items() if name != "path"}
        return {**known, "fingerprint": filtered(self).fingerprint}


@lru_cache(maxsize=16)
def filtered(source: Source) -> Interactions:
    """The log after its filter."""
    return load(source.path).k_core(source.min_user, source.min_item)


@lru_cache(maxsize=16)
def cut(source: Source, protocol: str) -> dict[str, Interactions]:
    """Train, valid and test: each user's last 20 % are the test set, the last 10 % of the rest the validation set.

    In the paper's protocol there is no validation set: the test set stands for it.
    """
    log = filtered(source)
    if protocol == "paper":
        train, test = log.split_last(TEST)
        return {"train": train, "valid": test, "test": test}
    train, valid, test = log.split_last(TEST, valid=VALID)
    return {"train": train, "valid": valid, "test": test}
