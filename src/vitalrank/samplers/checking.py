"""Checks of what a caller gives to a sampler: ids of the log, and vectors of one width."""

from __future__ import annotations

from vitalrank._util.typing import DeviceArray, GivenArray
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.samplers.backends import ArrayBackend


def checked_ids(
    backend: ArrayBackend, train: Interactions, users: GivenArray, positives: GivenArray, rows: GivenArray | None
) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Users, positives and row numbers of a batch as arrays of the backend."""  # (B,) each
    who = backend.check_ids(users, "users", train.n_users)
    what = backend.check_ids(positives, "positives", train.n_items)
    if len(who) != len(what):
        raise SettingError(f"{len(who)} users but {len(what)} positives: give arrays of one length.")
    numbers = backend.row_numbers(len(who)) if rows is None else backend.check_rows(rows)
    if len(numbers) != len(who):
        raise SettingError(f"{len(numbers)} rows but {len(who)} users: give arrays of one length.")
    return who, what, numbers


def checked_vectors(
    backend: ArrayBackend,
    queries: GivenArray | None,
    item_table: GivenArray | None,
    n_items: int,
    positives: DeviceArray,
    check_finite: bool,
) -> tuple[DeviceArray | None, DeviceArray | None]:
    """Queries (B, d) and item table (n, d) as arrays of the backend; the rows of the positives stand for the table."""
    table = None if item_table is None else backend.check_vectors(item_table, "item_table", n_items)
    asked = None if queries is None else backend.check_vectors(queries, "queries", len(positives))
    if table is None or asked is None:
        return asked, table
    if table.shape[1] != asked.shape[1]:
        raise SettingError(f"queries are {asked.shape[1]} wide but item_table {table.shape[1]}; they must agree.")
    if check_finite:
        for name, rows_read in (("queries", asked), ("item_table", table[positives])):
            if not bool(backend.xp.isfinite(rows_read).all()):
                raise SettingError(f"{name} holds NaN or infinite values; give finite vectors.")
    return asked, table
