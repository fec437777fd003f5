"""The endpoints: from fields to one call of the model, to the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

import vitalrank
from vitalrank.errors import VitalrankError
from vitalrank.serving.explaining import Explanation, explain, explain_history
from vitalrank.serving.recommending import fold_in, similar_items
from vitalrank.serving.web.batching import Batcher
from vitalrank.serving.web.fields import Fields
from vitalrank.serving.web.filter_fields import filters_of_one, take_filters
from vitalrank.serving.web.limits import ServerSettings
from vitalrank.serving.web.metrics import Metrics
from vitalrank.serving.web.reloading import Reloader
from vitalrank.serving.web.snapshot import ListEntry, Snapshot, UserRequest

Answer = dict[str, Any]
_Result = TypeVar("_Result")


class Api:
    """The handlers, by the model that is current when a request arrives."""

    def __init__(self, reloader: Reloader, settings: ServerSettings, metrics: Metrics) -> None:
        self._reloader, self._settings, self._metrics = reloader, settings, metrics
        self.batcher: Batcher[tuple[Snapshot, UserRequest], list[ListEntry] | VitalrankError] = Batcher(
            _answer_batch, settings.window
        )
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="vitalrank-slow")  # all but plain recommendations

    @property
    def _now(self) -> Snapshot:
        return self._reloader.current

    async def recommend(self, fields: Fields) -> Answer:
        now = self._now
        many = fields.ids("users", self._settings.limits.batch) if fields.has("users") else None
        users = many or [fields.one_id("user", now.log.user_ids)]
        n, unknown = fields.count("n", 10), fields.choice("unknown", ("error", "popular"))
        options = take_filters(fields, now.table, len(users))
        if fields.switch("seen"):
            options["seen"] = True
        if fields.switch("exclude_negatives"):
            options["exclude_negatives"] = True
        fields.done()
        requests = [UserRequest(user, n, unknown, filters_of_one(options, place)) for place, user in enumerate(users)]
        lists = await asyncio.gather(*(self.batcher.submit((now, request)) for request in requests))
        results = []
        for user, found in zip(users, lists, strict=True):
            if isinstance(found, VitalrankError):
                raise found
            results.append({"user": user, "items": found})
        return {"results": results} if many else results[0]

    async def similar(self, fields: Fields) -> Answer:
        now = self._now
        many = fields.ids("items_like", self._settings.limits.batch) if fields.has("items_like") else None
        items = many or [fields.one_id("item", now.log.item_ids)]
        n, options = fields.count("n", 10), take_filters(fields, now.table, len(items))
        fields.done()
        ids, scores = await self._in_thread(lambda: similar_items(now.model, items, n, **options))
        results = [
            {"item": item, "items": now.entries_of_ids(*row)} for item, *row in zip(items, ids, scores, strict=True)
        ]
        return {"results": results} if many else results[0]

    async def fold_in(self, fields: Fields) -> Answer:
        now = self._now
        many = fields.histories("histories") if fields.has("histories") else None
        histories = many or [fields.ids("history")]
        n, unknown = fields.count("n", 10), fields.choice("unknown", ("skip", "error"))
        options = take_filters(fields, now.table, len(histories))
        if fields.switch("seen"):
            options["seen"] = True
        fields.done()

        def answer() -> list[Answer]:
            ids, scores = fold_in(now.model, histories, n, unknown=unknown, **options)
            return [
                {"items": now.entries_of_ids(*row), "unknown": _unknown(now, history)}
                for history, *row in zip(histories, ids, scores, strict=True)
            ]

        results = await self._in_thread(answer)
        return {"results": results} if many else results[0]

    async def explain(self, fields: Fields) -> Answer:
        now = self._now
        item = fields.one_id("item", now.log.item_ids)
        if fields.has("history"):
            history = fields.ids("history")
            fields.done()
            return _as_answer(now, await self._in_thread(lambda: explain_history(now.model, history, item)))
        user = fields.one_id("user", now.log.user_ids)
        fields.done()
        return {"user": user, **_as_answer(now, await self._in_thread(lambda: explain(now.model, user, item)))}

    async def history(self, fields: Fields) -> Answer:
        now = self._now
        user, n = fields.one_id("user", now.log.user_ids), fields.count("n", 50)
        fields.done()
        return {"user": user, "items": now.history(user, n)}

    async def items(self, fields: Fields) -> Answer:
        now, text, n = self._now, fields.text("q"), fields.count("n", 20)
        fields.done()
        return {"items": await self._in_thread(lambda: now.find_items(text, n))}

    async def users(self, fields: Fields) -> Answer:
        now, text, n = self._now, fields.text("q"), fields.count("n", 20)
        fields.done()
        return {"users": await self._in_thread(lambda: now.find_users(text, n))}

    async def health(self, fields: Fields) -> Answer:
        fields.done()
        now = self._now
        return {
            "status": "ok", "version": vitalrank.__version__, "model": type(now.model).__name__,
            "users": now.log.n_users, "items": now.log.n_items, "loaded": now.loaded, "reloads": self._metrics.reloads,
        }  # fmt: skip

    async def metrics(self, request: Request) -> Response:
        gauges = {
            "vitalrank_batches_total": ("Ranking calls.", float(self.batcher.batches)),
            "vitalrank_batched_requests_total": ("Requests in ranking calls.", float(self.batcher.requests)),
            "vitalrank_model_loaded_timestamp_seconds": ("When the current model was loaded.", self._now.loaded),
        }
        return Response(self._metrics.text(gauges), media_type="text/plain; version=0.0.4")

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._slow, work)


def _answer_batch(asked: Sequence[tuple[Snapshot, UserRequest]]) -> list[list[ListEntry] | VitalrankError]:
    """One ranking call for each model that is asked: two for a moment after a reload."""
    answers: list[Any] = [None] * len(asked)
    for snapshot in dict.fromkeys(one for one, _ in asked):
        places = [place for place, (one, _) in enumerate(asked) if one is snapshot]
        found = snapshot.recommend_many([asked[place][1] for place in places])
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer
    return answers


def _unknown(now: Snapshot, history: Sequence[Any]) -> list[Any]:
    missing = now.log.item_lookup.positions_or_minus_one(history) < 0
    return [one for one, is_missing in zip(history, missing, strict=True) if is_missing]


def _as_answer(now: Snapshot, why: Explanation) -> Answer:
    entries = now.entries(now.log.item_index(why.items)) if len(why.items) else []
    for entry, part in zip(entries, why.contributions.tolist(), strict=True):
        entry["contribution"] = part
    target = now.entries(now.log.item_index([why.item]))[0]
    return {**target, "score": why.score, "because": entries, "rest": why.rest}
