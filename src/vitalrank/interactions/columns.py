"""Which column is which: well-known layouts first, then well-known names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from vitalrank._util.display import listed, printable, quoted
from vitalrank.errors import DataError
from vitalrank.interactions.unrecognised_time import ask_about_time

USER_NAMES = ("user", "userid", "uid", "u", "username", "reviewerid", "customer", "customerid", "visitorid", "memberid")
ITEM_NAMES = (
    *("item", "itemid", "iid", "i", "movie", "movieid", "asin", "businessid", "product", "productid", "stockcode"),
    *("book", "bookid", "artist", "artistid", "track", "trackid", "song", "songid", "sku", "app", "appid", "gameid"),
)
TIME_NAMES = (
    *("time", "timestamp", "t", "ts", "date", "datetime", "unixtime", "unixtimestamp", "timestampms", "unixreviewtime"),
    *("created", "createdat", "createdtime", "createdate", "eventtime", "eventtimestamp", "eventdate", "eventts"),
    *("invoicedate", "orderdate", "purchasedate", "transactiondate", "checkintime", "reviewdate", "tdat"),
)
WELL_KNOWN = {"user": USER_NAMES, "item": ITEM_NAMES, "time": TIME_NAMES}


class Columns(NamedTuple):
    """The columns of a log, by name; time and weight may be absent."""

    user: str
    item: str
    time: str | None
    weight: str | None = None

    @property
    def present(self) -> dict[str, str]:
        """The columns that there are, by their roles.

        Examples
        --------
        >>> Columns("u", "i", None, "stars").present
        {'user': 'u', 'item': 'i', 'weight': 'stars'}
        """
        return {role: name for role, name in self._asdict().items() if name}


# Records whose other fields would make the plain names ambiguous.
LAYOUTS = (
    Columns("reviewerID", "asin", "unixReviewTime"),  # Amazon reviews, 2014 and 2018
    Columns("user_id", "parent_asin", "timestamp"),  # Amazon reviews, 2023
    Columns("user_id", "business_id", "date"),  # Yelp
    Columns("username", "product_id", "date"),  # Steam
)


def normalized(name: str) -> str:
    """A name without its RecBole type, case and punctuation: ``User_ID:token`` is ``userid``."""
    return "".join(letter for letter in name.split(":")[0].lower() if letter.isalnum())


def recognise(
    names: Sequence[str],
    user: str | None = None,
    item: str | None = None,
    time: str | bool | None = None,
    where: str = "frame",
    values: Callable[[str], Iterable[Any]] = lambda name: (),
    weight: str | None = None,
) -> Columns:
    """Find the user, item, time and weight columns.

    Parameters
    ----------
    names
        The column names present.
    user, item, time
        Names the caller gave; None looks for a well-known one. ``time=False`` means no time.
    where
        What to call the source in an error.
    values
        The first values of a column; asked for only where no time is found, which may yet be there.
    weight
        The name of the weight column; None: the log has no weights.

    Examples
    --------
    >>> recognise(["movieId", "userId", "rating", "timestamp"])
    Columns(user='userId', item='movieId', time='timestamp', weight=None)
    """
    if time is True:
        raise DataError(f"{where}: time=True means nothing; give a column name, None or False.")
    if user is None and item is None and time is None:
        for layout in LAYOUTS:
            if set(layout[:3]) <= set(names):
                return _once(layout._replace(weight=_named(names, weight, where, "weight")), names, where)
    found = Columns(
        _named(names, user, where, "user") or _guess(names, "user", where),
        _named(names, item, where, "item") or _guess(names, "item", where),
        None if time is False else _named(names, time, where, "time") or _guess(names, "time", where, needed=False),
        _named(names, weight, where, "weight"),
    )
    found = _once(found._replace(time=found.time or None), names, where)
    if time is None and found.time is None:
        ask_about_time([name for name in names if name not in found], values, where)
    return found


def is_known(names: Sequence[str]) -> bool:
    """Whether both a user and an item column have well-known names."""
    seen = {normalized(name) for name in names}
    return bool(seen & set(USER_NAMES)) and bool(seen & set(ITEM_NAMES))


def _named(names: Sequence[str], wanted: str | bool | None, where: str, role: str) -> str | None:
    """The column the caller named, with or without its RecBole type."""
    if wanted is None:
        return None
    matches = [name for name in names if wanted in (name, name.split(":")[0])]
    if not matches:
        raise DataError(
            f"{where}: no column {quoted(wanted)}; it has {listed(names)}. Give {role}= (--{role}) one of these."
        )
    return matches[0]


def _guess(names: Sequence[str], role: str, where: str, needed: bool = True) -> str:
    known = WELL_KNOWN[role]
    matches = list(dict.fromkeys(name for name in names if normalized(name) in known))
    if len(matches) > 1:
        raise DataError(
            f"{where}: {' and '.join(map(printable, matches[:5]))} could each be the {role} column; "
            f"say {role}=... (--{role})."
        )
    if not matches and needed:
        raise DataError(f"{where}: no known {role} column among {listed(names)}; say {role}=... (--{role}).")
    return matches[0] if matches else ""


def _once(found: Columns, names: Sequence[str], where: str) -> Columns:
    roles = found.present
    if len(set(roles.values())) < len(roles):
        raise DataError(f"{where}: one column has two roles ({listed(roles.values())}); name different ones.")
    for name in roles.values():
        if list(names).count(name) > 1:
            raise DataError(
                f"{where}: column {quoted(name)} occurs {list(names).count(name)} times; rename or drop one."
            )
    return found
