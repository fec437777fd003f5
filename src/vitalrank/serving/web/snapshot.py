"""One loaded model with everything that answers are made from; a reload replaces it as a whole."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vitalrank._util.typing import Array
from vitalrank.errors import VitalrankError
from vitalrank.interactions import Interactions
from vitalrank.ranking.rankers import LeftOut, ranker_of
from vitalrank.ranking.scorers import Scorer
from vitalrank.ranking.top_n import seen_items
from vitalrank.serving.filters import FilterOptions, Filters
from vitalrank.serving.items import ItemTable
from vitalrank.serving.recommending import recommend
from vitalrank.serving.web.fields import Id, plain_id

ListEntry = dict[str, Any]
_SCANNED = 200_000  # users looked through for a text


@dataclass(frozen=True)
class UserRequest:
    """A list for one user of the log."""

    user: Id
    n: int
    unknown: str = "error"
    filters: FilterOptions = field(default_factory=lambda: FilterOptions())


class Snapshot:
    """A model, packed for ranking, and its items' names.

    Parameters
    ----------
    model
        A fitted model.
    held_out
        Logs whose items are not recommended either.
    table
        Names and categories of the items.
    """

    def __init__(self, model: Scorer, held_out: Mapping[str, Interactions], table: ItemTable | None = None) -> None:
        self.model, self.table = model, table
        self.log = model.train
        self.held_out = list(held_out.values())
        self.loaded = time.time()
        self._ranker = ranker_of(model)
        self._bounds, self._seen = seen_items(self.log, self.held_out)
        self._names = None if table is None else table.names(self.log.item_ids.tolist())
        self._plain = Filters(self.log)
        self.recommend_many([UserRequest(plain_id(self.log.user_ids, 0), 1)])  # compiles, and finds a broken model

    def recommend_many(self, requests: Sequence[UserRequest]) -> list[list[ListEntry] | VitalrankError]:
        """A list for each request, made by one ranking call, or what is wrong with the request."""
        answers: list[Any] = [None] * len(requests)
        places, users, left_out = [], [], []
        for place, request in enumerate(requests):
            try:
                user = self._user(request)
                if user < 0:
                    answers[place] = self._popular(request)
                    continue
                left_out.append(self._left_out(request, user))
                places.append(place)
                users.append(user)
            except VitalrankError as error:
                answers[place] = error
        if places:
            n = min(max(requests[place].n for place in places), self.log.n_items)
            rows = self._ranker.user_rows(np.array(users))
            items, scores = self._ranker.top(rows, n, LeftOut.of(left_out))
            for place, found, values in zip(places, items, scores, strict=True):
                kept = min(requests[place].n, int((found >= 0).sum()))
                answers[place] = self.entries(found[:kept], values[:kept])
        return answers

    def _user(self, request: UserRequest) -> int:
        """The internal id of the user, -1 where popular items stand in."""
        lookup = self.log.user_lookup
        find = lookup.positions_of if request.unknown == "error" else lookup.positions_or_minus_one
        return int(find([request.user])[0])

    def _left_out(self, request: UserRequest, user: int) -> Array:
        seen = self._seen[self._bounds[user] : self._bounds[user + 1]]
        if not request.filters:
            return seen
        chosen = Filters.of(self.log, [request.user], request.filters)
        own = self.log.sorted_items[self.log.indptr[user] : self.log.indptr[user + 1]]
        row = chosen.row(0, user, own, seen)
        if chosen.allowed is None:
            return row
        keep = np.zeros(self.log.n_items, bool)
        keep[chosen.allowed] = True
        keep[row] = False
        return np.flatnonzero(~keep)

    def _popular(self, request: UserRequest) -> list[ListEntry]:
        ids, scores = recommend(self.model, [request.user], request.n, unknown="popular", **request.filters)
        return self.entries_of_ids(ids[0], scores[0])

    def entries_of_ids(self, ids: Array, scores: Array) -> list[ListEntry]:
        """Original ids and their scores, without places that nothing fills."""
        left = scores > -np.inf
        return self.entries(self.log.item_index(ids[left]) if left.any() else np.empty(0, np.int64), scores[left])

    def entries(self, items: Array, scores: Array | None = None) -> list[ListEntry]:
        """Items with their scores and names."""
        ids = self.log.item_ids[items].tolist()
        found: list[ListEntry] = [{"item": one} for one in ids]
        if scores is not None:
            for entry, score in zip(found, scores.tolist(), strict=True):
                entry["score"] = score
        if self._names is not None:
            for entry, item in zip(found, items.tolist(), strict=True):
                entry["name"] = self._names[item]
        return found

    def history(self, user: Id, n: int) -> list[ListEntry]:
        """The newest items of a user, the last one first."""
        row = int(self.log.user_index([user])[0])
        return self.entries(self.log.items[self.log.indptr[row] : self.log.indptr[row + 1]][::-1][:n])

    def find_items(self, text: str, n: int) -> list[ListEntry]:
        """Items whose name or id contains a text, the most popular first."""
        wanted = text.casefold()
        degree, found = self.log.item_degree, []
        for item, one in enumerate(self.log.item_ids.tolist()):
            name = "" if self._names is None else self._names[item]
            if wanted in name.casefold() or wanted in str(one).casefold():
                found.append(item)
        found.sort(key=lambda item: -degree[item])
        return self.entries(np.array(found[:n], np.int64))

    def find_users(self, text: str, n: int) -> list[Id]:
        """Users whose id begins with a text."""
        found: list[Id] = []
        for user in range(min(self.log.n_users, _SCANNED)):
            one = plain_id(self.log.user_ids, user)
            if str(one).startswith(text):
                found.append(one)
                if len(found) == n:
                    break
        return found
