"""Which items may be returned: allow lists, block lists, categories, what someone touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.checks import check_bool
from vitalrank._util.display import listed, quoted
from vitalrank._util.typing import Array
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.serving.items import ItemTable


class FilterOptions(TypedDict, total=False):
    """Filters that ``recommend``, ``similar_items`` and ``fold_in`` share, as keyword arguments.

    Ids that the log does not know do no harm in a list; ids of another type are an error.
    """

    items: Sequence[Any] | Array | None
    """Allow list: nothing else is returned."""
    exclude_items: Sequence[Any] | Array | None
    """Block list: items that nobody gets."""
    seen: bool
    """Whether items of the training log, or of the history, may be returned."""
    per_user_exclude: Sequence[Sequence[Any]] | Mapping[Any, Sequence[Any]] | None
    """A block list for each one asked about, in their order; or by id, for those who have one."""
    exclude_negatives: bool
    """Leave out each user's known negatives (``log.with_negatives``)."""
    within: str | Mapping[str, Any] | None
    """``{"genre": "Crime"}`` keeps items with that value (or one of several) in a column of ``table``; ``"genre"``
    keeps those that share a value with the item, the user's items or the history that is asked about."""
    table: ItemTable | None
    """The table whose columns ``within`` names."""


@dataclass(frozen=True)
class Filters:
    """Checked :class:`FilterOptions`, in internal ids of a log."""

    log: Interactions
    allowed: Array | None = None  # sorted; None is the whole catalogue
    seen: bool = False
    negatives: bool = False
    lists: Sequence[Array] | None = None  # per_user_exclude, for each row
    codes: NDArray[np.int64] | None = None  # category of each item, where rows keep to their own

    @classmethod
    def of(cls, log: Interactions, asked: Sequence[Any], options: FilterOptions) -> Filters:
        """The filters of a batch of ids or histories that are asked about.

        Examples
        --------
        >>> import vitalrank as vr
        >>> log = vr.Interactions.from_arrays([1, 1, 2], [7, 8, 7])
        >>> Filters.of(log, [1, 2], {"items": [8, 7, 99], "exclude_items": [7]}).allowed
        array([1])
        """
        unknown = options.keys() - FilterOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(FilterOptions.__annotations__)
            raise SettingError(f"no filter {quoted(min(unknown))}; there are {known}.")
        seen, negatives = options.get("seen", False), options.get("exclude_negatives", False)
        check_bool("seen", seen)
        check_bool("exclude_negatives", negatives)
        within, table = options.get("within"), options.get("table")
        if within is not None and table is None:
            raise SettingError(
                "within= needs the table that has the column: give table= (--names on the command line)."
            )
        codes = table.codes(within, log)[0] if isinstance(within, str) and table is not None else None
        return cls(
            log,
            _allowed(log, options, table),
            seen,
            negatives and log.negative_log is not None,
            _lists(log, asked, options.get("per_user_exclude")),
            codes,
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing is left out but what was seen."""
        parts = self.allowed, self.lists, self.codes
        return not (self.seen or self.negatives) and all(part is None for part in parts)

    def row(self, index: int, user: int, touched: Array, seen: Array | None = None) -> Array:
        """The sorted items left out for row ``index``: ``user`` (-1 outside the log) who touched ``touched``.

        ``seen`` are those left out unless seen items may be returned; by default ``touched``.
        """
        lists: list[Array] = [] if self.seen else [touched if seen is None else seen]
        if self.lists is not None:
            lists.append(self.lists[index])
        if self.negatives and user >= 0:
            known = self.log.negatives
            lists.append(known.indices[known.indptr[user] : known.indptr[user + 1]])
        if self.codes is not None:
            own = self.codes[touched]
            lists.append(np.flatnonzero(~np.isin(self.codes, own[own >= 0])))
        return np.unique(np.concatenate(lists)).astype(np.int64) if lists else np.empty(0, np.int64)


def known_items(log: Interactions, items: Sequence[Any] | Array) -> NDArray[np.int64]:
    """Internal ids of those items that the log knows; ids of another type are an error."""
    found = log.item_lookup.positions_or_minus_one(items) if len(items) else np.empty(0, np.int64)
    return found[found >= 0]


def _allowed(log: Interactions, options: FilterOptions, table: ItemTable | None) -> Array | None:
    """Items that anybody may get, sorted; None for all."""
    keep = np.ones(log.n_items, bool)
    within = options.get("within")
    name: Literal["items", "exclude_items"]
    for name in ("items", "exclude_items"):
        given = options.get(name)
        if given is None:
            continue
        if isinstance(given, str | bytes | Mapping) or np.ndim(given) != 1:
            raise SettingError(f"{name}={quoted(given)}: give a list of item ids.")
        listed_ones = np.zeros(log.n_items, bool)
        listed_ones[known_items(log, given)] = True
        keep &= listed_ones if name == "items" else ~listed_ones
    if isinstance(within, Mapping) and table is not None:
        for column, value in within.items():
            keep &= _has_value(log, table, column, value)
    if not keep.any():
        given_names = [name for name in ("items", "exclude_items", "within") if options.get(name) is not None]
        raise SettingError(
            f"{' and '.join(given_names)} leave none of the {log.n_items:,} items of the log; check the ids and values."
        )
    return None if keep.all() else np.flatnonzero(keep)


def _has_value(log: Interactions, table: ItemTable, column: str, value: str | Sequence[str]) -> NDArray[np.bool_]:
    codes, values = table.codes(column, log)
    wanted = [str(one) for one in ([value] if isinstance(value, str) or np.ndim(value) == 0 else value)]
    missing = [one for one in wanted if one not in values]
    if missing:
        raise SettingError(
            f"no item of the log has {quoted(missing[0])} in column {quoted(column)}; it holds {listed(values)}."
        )
    return np.isin(codes, [values.index(one) for one in wanted])


def _lists(
    log: Interactions, asked: Sequence[Any], given: Sequence[Sequence[Any]] | Mapping[Any, Sequence[Any]] | None
) -> Sequence[Array] | None:
    if given is None:
        return None
    rows = [given.get(one, ()) for one in asked] if isinstance(given, Mapping) else list(given)
    if len(rows) != len(asked):
        raise SettingError(
            f"per_user_exclude has {len(rows):,} lists for {len(asked):,} asked about; give one for each."
        )
    for row in rows:
        if isinstance(row, str) or np.ndim(row) != 1:
            raise SettingError(f"per_user_exclude holds {quoted(row)}; each entry is a list of item ids.")
    return [known_items(log, row) for row in rows]
