"""The filters among the fields of a request."""

from __future__ import annotations

from vitalrank.serving.filters import FilterOptions
from vitalrank.serving.items import ItemTable
from vitalrank.serving.web.fields import Fields
from vitalrank.serving.web.limits import RequestError


def take_filters(fields: Fields, table: ItemTable | None, count: int) -> FilterOptions:
    """The filters that were given, for ``count`` users, items or histories that are asked about.

    Examples
    --------
    >>> from vitalrank.serving.web.limits import Limits
    >>> fields = Fields({"exclude_items": [7], "per_user_exclude": [[8], []]}, Limits())
    >>> take_filters(fields, None, 2)
    {'per_user_exclude': [[7, 8], [7]]}
    """
    options: FilterOptions = {}
    allowed, blocked = fields.optional_ids("items"), fields.optional_ids("exclude_items")
    own, within = fields.lists_of_each("per_user_exclude", count), fields.within("within")
    if allowed is not None:
        options["items"] = allowed
    if blocked is not None or own is not None:
        # A list for each, not another catalogue, for which all would be packed anew.
        options["per_user_exclude"] = [[*(blocked or ()), *one] for one in own or [[]] * count]
    if within is not None:
        if table is None:
            raise RequestError(400, "within needs categories, and this server was started without --names.")
        options["within"], options["table"] = within, table
    return options


def filters_of_one(options: FilterOptions, index: int) -> FilterOptions:
    """The filters of one of those that are asked about."""
    own = options.get("per_user_exclude")
    return {**options, "per_user_exclude": [own[index]]} if isinstance(own, list) else options
