"""Warm start: training on a grown log from the vectors of an earlier model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.typing import Array
from vitalrank.config import SETTINGS
from vitalrank.engines.base import Engine, Table
from vitalrank.errors import SettingError
from vitalrank.history import History
from vitalrank.interactions import Interactions
from vitalrank.training.placing import place_rows
from vitalrank.training.trainable import Trainable

_LEAST_EPOCHS, _SHARE_OF_EPOCHS = 3, 0.15  # of an update: with less it falls behind a refit (benchmarks/update.py)
_PER_MACHINE = ("device", "precision", "epochs")  # settings that an update does not take from the earlier training


@dataclass(frozen=True)
class WarmStart:
    """What a training starts from.

    Parameters
    ----------
    log
        The log that the earlier model was trained on.
    values
        Its arrays, by the names of the engine's.
    tables
        Which of them hold vectors of users and items; the others must keep their shape.
    history
        How the earlier model was trained.
    state, step
        The optimizer's state and its number of steps, where the run folder keeps them.
    padding
        Of tables found by their sizes that have a row more than ids: which row stands for no id. The first if not said.
    """

    log: Interactions
    values: Mapping[str, Array]
    tables: Mapping[str, Table]
    history: History
    state: Mapping[str, Array] = field(default_factory=dict)
    step: int = 0
    padding: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Hex digest of all that the training depends on: part of the run identity."""
        digest = hashlib.sha256(f"{self.log.fingerprint} {self.step}".encode())
        for arrays in (self.values, self.state):
            for name in sorted(arrays):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()

    @property
    def origin(self) -> dict[str, Any]:
        """How the model was first fitted, and how many warm starts followed: what :class:`History` keeps of it."""
        earlier = self.history.start
        if earlier is not None:
            return {**earlier, "updates": earlier["updates"] + 1}
        epochs = self.history.best_epoch or len(self.history)
        return {"updates": 1, "epochs": epochs, "settings": self.history.settings or {}}

    def options(self) -> dict[str, Any]:
        """Options of ``fit`` where none are given: those of the first training, for a share of its epochs."""
        known = self.origin["settings"].items()
        options = {name: value for name, value in known if name in SETTINGS and name not in _PER_MACHINE}
        epochs = max(_LEAST_EPOCHS, round(_SHARE_OF_EPOCHS * self.origin["epochs"]))
        return {**options, "epochs": epochs}

    def check_log(self, train: Interactions) -> None:
        """Reject a log whose first users and items are not those of the earlier model."""
        for what in ("user", "item"):
            old, new = getattr(self.log, f"{what}_ids"), getattr(train, f"{what}_ids")
            if len(new) < len(old) or old.dtype.kind != new.dtype.kind or not np.array_equal(new[: len(old)], old):
                raise SettingError(
                    f"start= was trained on a log whose {what} ids are not the first of this one; extend that log: "
                    "model.train.extend(new_rows)."
                )

    def apply(self, model: Trainable, engine: Engine, train: Interactions) -> None:
        """Set an engine to the earlier values, with vectors for users and items that are new."""
        initial = engine.complete() or engine.values()  # of other ranks, too
        missing = [name for name in initial if name not in self.values]
        if missing:
            raise SettingError(f"start= has no {missing[0]!r}; give a model of the same class and settings.")
        tables = self._tables(initial, train)
        values = {name: np.array(array) for name, array in initial.items()}
        for name, array in values.items():
            old = self.values[name]
            if name not in tables and old.shape != array.shape:
                raise SettingError(
                    f"start= has {name} {old.shape}, and this model {array.shape}; give a model of the same settings."
                )
            if name not in tables:
                values[name] = np.array(old)
        for name, table in tables.items():
            self._check_width(name, values[name])
            self._copy_known(values[name], self.values[name], table, train)
        for name in sorted(tables, key=lambda name: tables[name].side == "item"):  # items by all of their users
            self._place_new(values, tables, name, train)
        rows = {name: table.rows_of(self.new_ids(table.side, train)) for name, table in tables.items()}
        placed = {name: values[name][where] for name, where in rows.items()}
        engine.constrain(placed)  # the others stay as they are
        for name, where in rows.items():
            values[name][where] = placed[name]
        state = {name: _padded(self.state[name], like) for name, like in engine.state().items() if name in self.state}
        is_whole = state.keys() == engine.state().keys() and bool(state)
        engine.load(values, state if is_whole else None)
        model.complete_warm_start(self.new_ids("user", train), self.new_ids("item", train))
        engine.step = self.step if is_whole else 0

    def new_ids(self, side: str, train: Interactions) -> NDArray[np.int64]:
        """Users or items that are new: unknown to the earlier log, or without a row there, since it was held out."""
        had, has = getattr(self.log, f"{side}_degree"), getattr(train, f"{side}_degree")
        is_new = np.ones(len(has), bool)
        is_new[: len(had)] = (had == 0) & (has[: len(had)] > 0)
        return np.flatnonzero(is_new)

    def _tables(self, initial: Mapping[str, Array], train: Interactions) -> Mapping[str, Table]:
        """The tables that were declared; for modules of a caller's those whose sizes are those of both logs."""
        if self.tables:
            return {name: table for name, table in self.tables.items() if name in initial}
        sizes = {
            "user": (self.log.n_users, train.n_users),
            "item": (self.log.n_items, train.n_items),
        }
        found = {}
        for name, array in initial.items():
            old = self.values[name]
            if array.ndim != 2 or old.ndim != 2:
                continue
            for side, size in sizes.items():
                more = len(old) - size[0]
                if more in (0, 1) and len(array) - size[1] == more and len(old) < len(array):
                    is_behind = self.padding.get(name, 0) == len(array) - 1
                    found[name] = Table(side, first=0 if is_behind else more)
        return found

    def _check_width(self, name: str, array: Array) -> None:
        old = self.values[name]
        if old.ndim != array.ndim or old.shape[1:] != array.shape[1:] or len(old) > len(array):
            raise SettingError(
                f"start= has {name} {old.shape}, and this model {array.shape}; give a model of the same settings."
            )

    def _copy_known(self, new: Array, old: Array, table: Table, train: Interactions) -> None:
        known, total = (table.first + table.rows * size for size in self._sizes(table, train))
        new[:known] = old[:known]
        new[total:] = old[known:]  # rows that belong to no id

    def _sizes(self, table: Table, train: Interactions) -> tuple[int, int]:
        """How many ids the earlier log has, and the grown one."""
        name = f"n_{table.side}s"
        return getattr(self.log, name), getattr(train, name)

    def _place_new(self, values: dict[str, Array], tables: Mapping[str, Table], name: str, train: Interactions) -> None:
        table, new = tables[name], self.new_ids(tables[name].side, train)
        others = [(other, one) for other, one in tables.items() if one.side != table.side]
        if not len(new) or not others:  # with nothing to be solved from, initial values stay
            return
        other, one = others[0]
        # Users are placed first, by items that were trained; then items by all of their users.
        usable = np.flatnonzero(self.log.item_degree) if one.side == "item" else np.arange(train.n_users)
        fixed = _by_id(values[other], one, self._sizes(one, train)[1])[usable]
        by_id = _by_id(values[name], table, self._sizes(table, train)[1])
        known = np.flatnonzero(getattr(self.log, f"{table.side}_degree"))
        trained = by_id[known]
        varying = (trained != trained[:1]).any(axis=0)  # the constant beside a bias keeps its value
        log = train.csr if table.side == "user" else train.csr.T.tocsr()
        log = log if len(usable) == log.shape[1] else log[:, usable]
        placed = by_id[new]
        placed[:, varying] = place_rows(np.ascontiguousarray(trained[:, varying]), fixed, log, known, new)
        values[name][table.rows_of(new)] = placed.reshape(-1, values[name].shape[1])


def _by_id(array: Array, table: Table, ids: int) -> Array:
    """A copy of the vectors of the first ids, one row each."""
    return np.array(array[table.first : table.first + table.rows * ids]).reshape(ids, -1)


def _padded(old: Array, like: Array) -> Array:
    """The state of known rows, and zeros for new ones; of another layout: nothing but zeros."""
    state = np.zeros_like(like)
    if old.ndim == like.ndim and all(a <= b for a, b in zip(old.shape, like.shape, strict=True)):
        state[tuple(slice(size) for size in old.shape)] = old
    return state
