"""What the command line holds out: by each user's last rows, by time, at random, or a test log of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vitalrank._util.display import printable
from vitalrank.cli.options import READING, SPLIT, SPLIT_NAMES, format_of
from vitalrank.cli.taking import is_given, is_typed
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import SettingError

if TYPE_CHECKING:
    from vitalrank.interactions import Interactions
    from vitalrank.prepared.folder import Prepared


@dataclass(frozen=True)
class SplitLog:
    """The parts of a log, and what a reader of the results should know of them."""

    train: Any
    held_out: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    whole: Callable[[], Any] = lambda: None  # all parts as one log


SPLITS: dict[str, Callable[[Any, float, float], Any]] = {
    "last": lambda log, test, valid: log.split_last(test, valid=valid),
    "loo": lambda log, test, valid: log.split_last(count=1, valid=int(valid > 0)),
    "time": lambda log, test, valid: log.split_time(share=test, valid=valid),
    "random": lambda log, test, valid: log.split_random(test, valid=valid),
}
assert tuple(SPLITS) == SPLIT_NAMES


def parts_of(log: Interactions, test: float, valid: float, split: str = "last", cutoff: str | None = None) -> SplitLog:
    """The split by the names of its parts; a share of 0 leaves that part out.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.Interactions.from_arrays([1] * 10, range(10))
    >>> parts = parts_of(log, test=0, valid=0.3)
    >>> len(parts.train), {name: len(part) for name, part in parts.held_out.items()}
    (7, {'valid': 3})
    """
    if split not in SPLITS:
        raise SettingError(f"--split {split}: choose one of {', '.join(SPLITS)}.")
    if cutoff is not None:
        train, *held_out = log.split_time(cutoff, valid=valid)
    else:
        train, *held_out = SPLITS[split](log, test, valid)
    parts = {name: part for name, part in zip(("valid", "test"), held_out, strict=True) if len(part)}
    return SplitLog(train, parts, _unseen(train, parts))


def read_parts(path: Path, ctx: typer.Context, group: ProcessGroup | None = None) -> SplitLog:
    """The log of a command, split by its options, or as it was prepared, then for one rank of the group."""
    from vitalrank.cli.choices import read_log
    from vitalrank.prepared import Prepared, is_prepared

    if is_prepared(path) and (prepared := Prepared.open(path)).is_split:
        return _prepared_parts(prepared, ctx, group or ProcessGroup())
    log = read_log(path, ctx)
    return replace(split_log(log, ctx), whole=lambda: log)


def _prepared_parts(prepared: Prepared, ctx: typer.Context, group: ProcessGroup) -> SplitLog:
    usual = {name: default for name, (_, default) in {**READING, **SPLIT}.items()} | {"valid": 0.1}
    given = [name for name in usual if name in ctx.params]
    odd = [name for name in given if is_typed(ctx, name) or (is_given(ctx, name) and ctx.params[name] != usual[name])]
    if odd:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in odd)
        raise SettingError(f"{printable(prepared.folder)} was filtered and split by data prepare; leave out {flags}.")
    train, *held_out = prepared.split(rank=group.rank, ranks=group.size).values()
    parts = {name: part for name, part in zip(prepared.parts[1:], held_out, strict=True) if len(part)}
    return SplitLog(train, parts, _unseen(train, parts) if group.is_rank_zero else [], prepared.log)


def _unseen(train: Interactions, parts: dict[str, Any]) -> list[str]:
    return [f"{name}: {unseen}." for name, part in parts.items() if (unseen := train.unseen_in(part)).rows]


def split_log(log: Interactions, ctx: typer.Context) -> SplitLog:
    """The parts of a log that was read, by the options of a command."""
    given = ctx.params
    test, valid, split, cutoff = (given[name] for name in ("test", "valid", "split", "cutoff"))
    _check(ctx, split, cutoff)
    if given["test_log"] is None:
        return parts_of(log, test, valid, split, cutoff)
    if cutoff is not None or is_typed(ctx, "test"):
        raise SettingError("--test-log gives the test set; leave out --test and --cutoff.")
    return _with_test_log(parts_of(log, 0.0, valid, "last" if split == "loo" else split), given["test_log"], ctx)


def _check(ctx: typer.Context, split: str, cutoff: str | None) -> None:
    """Refuse options that say two different things."""
    if cutoff is not None and split != "time":
        raise SettingError("--cutoff is for --split time; say that too.")
    if is_typed(ctx, "test") and (cutoff is not None or split == "loo"):
        other = "--cutoff" if cutoff is not None else "--split loo"
        raise SettingError(f"{other} says what is held out for testing; leave out --test.")


def _with_test_log(parts: SplitLog, path: Path, ctx: typer.Context) -> SplitLog:
    import vitalrank as vr

    given = vr.read(path, like=parts.train, **format_of(ctx))
    test = vr.split_like(parts.train, given)
    lost = len(given) - len(test)
    note = (
        f"test: {lost:,} of {len(given):,} rows of {path} are left out, whose user or item {ctx.params['log']} lacks."
    )
    notes = [*parts.notes, *([note] if lost else [])]
    return SplitLog(parts.train, {**parts.held_out, "test": test}, notes)
