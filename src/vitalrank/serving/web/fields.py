"""The fields of a request, from a query string or a JSON object, checked one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalrank._util.display import listed, quoted
from vitalrank.serving.web.limits import Limits, RequestError

Id = str | int
_WHOLE = re.compile(r"-?[0-9]{1,18}")


class Fields:
    """Fields that are taken one by one; what is left at the end is an error.

    Examples
    --------
    >>> fields = Fields({"n": "3"}, Limits(), typed=True)
    >>> fields.count("n", 10), fields.done()
    (3, None)
    >>> Fields({"m": 1}, Limits()).done()
    Traceback (most recent call last):
    ...
    vitalrank.serving.web.limits.RequestError: unknown field: m.
    """

    def __init__(self, values: Mapping[str, Any], limits: Limits, typed: bool = False) -> None:
        self._left = dict(values)
        self._limits = limits
        self._typed = typed  # a query string, in which numbers and switches are text

    @classmethod
    def of_json(cls, body: bytes, limits: Limits) -> Fields:
        """The fields of a JSON object."""
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, "the body is not JSON; send one JSON object.") from error
        if not isinstance(values, dict):
            raise RequestError(400, 'the body is not a JSON object; send fields such as {"user": ...}.')
        return cls(values, limits)

    def has(self, name: str) -> bool:
        """Whether the field was given, and is not null."""
        return self._left.get(name) is not None

    def take(self, name: str) -> Any:
        """The value of a field, None where it was not given."""
        return self._left.pop(name, None)

    def count(self, name: str, default: int) -> int:
        """A length of a list."""
        value = self.take(name)
        if value is None:
            return default
        if self._typed and _WHOLE.fullmatch(value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= self._limits.n:
            raise RequestError(400, f"{name} is {quoted(value)}; give a whole number from 1 to {self._limits.n}.")
        return value

    def switch(self, name: str) -> bool:
        """True or false; false where it was not given."""
        value = self.take(name)
        if self._typed and value in ("true", "false", "1", "0"):
            value = value in ("true", "1")
        if value is not None and not isinstance(value, bool):
            raise RequestError(400, f"{name} is {quoted(value)}; give true or false.")
        return bool(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of some words; the first where it was not given."""
        value = self.take(name)
        if value is None:
            return choices[0]
        if value not in choices:
            raise RequestError(400, f"{name} is {quoted(value)}; choose one of {', '.join(choices)}.")
        return str(value)

    def text(self, name: str) -> str:
        """A short text; empty where it was not given."""
        value = self.take(name)
        if value is not None and (not isinstance(value, str) or len(value) > 200):
            raise RequestError(400, f"{name} is {quoted(value)}; give a text of at most 200 characters.")
        return value or ""

    def one_id(self, name: str, ids: NDArray[Any]) -> Id:
        """An id, which must be there; digits of a query string are a number where the ids are numbers."""
        value = self._id(self.take(name), name)
        if self._typed and isinstance(value, str) and np.issubdtype(ids.dtype, np.integer) and _WHOLE.fullmatch(value):
            return int(value)
        return value

    def ids(self, name: str, most: int | None = None) -> list[Id]:
        """A list of ids, which must be there."""
        value = self.take(name)
        return self._list(value, name, most or self._limits.ids)

    def optional_ids(self, name: str) -> list[Id] | None:
        """A list of ids, or None."""
        return self.ids(name) if self.has(name) else self.take(name)

    def histories(self, name: str) -> list[list[Id]]:
        """A list of lists of ids."""
        value = self.take(name)
        if not isinstance(value, list) or not 1 <= len(value) <= self._limits.batch:
            raise RequestError(400, f"{name}: give a list of 1 to {self._limits.batch} histories.")
        return [self._list(one, name, self._limits.ids) for one in value]

    def lists_of_each(self, name: str, count: int) -> list[list[Id]] | None:
        """A list of ids, perhaps empty, for each of ``count`` that are asked about; None where it was not given."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            raise RequestError(400, f"{name}: give one list of ids for each that is asked about, here {count}.")
        return [[] if one == [] else self._list(one, name, self._limits.ids) for one in value]

    def within(self, name: str) -> str | dict[str, str | list[str]] | None:
        """A column of the item table, or values by column."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, dict) or not all(_is_category(one) for one in value.values()) or len(value) > 10:
            raise RequestError(400, f"{name} is {quoted(value)}; give a column, or {{column: value or values}}.")
        return value

    def done(self) -> None:
        """Refuse fields that nothing took."""
        if self._left:
            raise RequestError(400, f"unknown field: {listed(sorted(self._left))}.")

    def _list(self, value: object, name: str, most: int) -> list[Id]:
        if not isinstance(value, list) or not value:
            raise RequestError(400, f"{name}: give a list of at least one id.")
        if len(value) > most:
            raise RequestError(400, f"{name} has {len(value):,} entries; at most {most:,} are taken.")
        return [self._id(one, name) for one in value]

    @staticmethod
    def _id(value: object, name: str) -> Id:
        if value is None:
            raise RequestError(400, f"{name} is missing; give an id.")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise RequestError(400, f"{name} is {quoted(value)}; ids are texts or whole numbers.")
        return value


def _is_category(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and 0 < len(value) <= 100 and all(isinstance(one, str) for one in value)
    )


def plain_id(log_ids: NDArray[Any], index: int) -> Id:
    """An original id as JSON holds it."""
    value = log_ids[index]
    return value.item() if hasattr(value, "item") else value  # type: ignore[no-any-return]
