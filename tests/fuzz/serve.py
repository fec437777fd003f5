"""Requests of any kind to a server: answered with valid lists, or refused with a 4xx and one sentence, never a 5xx."""

from __future__ import annotations

import asyncio
import json
import logging
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote_from_bytes

import vitalrank as vr
from vitalrank.serving import ItemTable
from vitalrank.serving.web.app import make_app
from vitalrank.serving.web.limits import Limits, ServerSettings
from vitalrank.serving.web.metrics import Metrics
from vitalrank.serving.web.reloading import Reloader
from vitalrank.serving.web.snapshot import Snapshot

FIELDS = {
    "/recommend": ["user", "users", "n", "unknown", "seen", "exclude_negatives", "items", "exclude_items", "within"],
    "/similar": ["item", "items_like", "n", "items", "exclude_items", "within"],
    "/fold-in": ["history", "histories", "n", "unknown", "seen", "items", "exclude_items", "within"],
    "/explain": ["user", "item", "history"],
    "/history": ["user", "n"],
    "/items": ["q", "n"],
    "/users": ["q", "n"],
    "/health": [],
}
FITTING: dict[str, list[Any]] = {
    "user": ["u1", "u2", 3], "users": [["u1", "u2"], ["u1"] * 64], "item": ["i1", 1], "items_like": [["i1", "i2"]],
    "n": [1, 3, 1000], "unknown": ["error", "popular", "skip"], "seen": [True, False], "exclude_negatives": [True],
    "items": [["i1", "i2", "i3"], ["i1"] * 40], "exclude_items": [["i1"], ["i0", "i9"]],
    "within": ["genre", {"genre": "a"}, {"genre": ["a", "b"]}], "history": [["i1"], ["i1", "i2", "nobody"]],
    "histories": [[["i1"], ["i2", "i3"]]], "q": ["i", "1", "Name"],
}  # fmt: skip
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, -(2**70), 10**400, 1.5, 1e308, "", "i1", "u1", "nobody",
    "\x00", "\ud800",
    "\x1b[2J", "\u202e", "a\nb", "x" * 5000, [], [[]], [None], ["i1"], [1], [["i1"]], ["i1"] * 6000, [["i1"]] * 65, {},
    {"genre": "a"}, {"genre": []}, {"genre": "none"}, {"": ""}, {"a": {"b": 1}}, {"genre": ["a"] * 101},
]  # fmt: skip
QUERY = [b"", b"1", b"i1", b"u1", b"true", b"\xff", b"%", b"+", b"\x00", b"9" * 400, b"[1]", b"a&b=c", b"1" * 300_000]
PATHS = [
    *FIELDS,
    "/",
    "/docs",
    "/openapi.json",
    "/metrics",
    "/nope",
    "/../etc/passwd",
    "//recommend",
    "/recommend/",
    "",
]
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "\xff"]
HEADERS = [
    (b"host", b"evil.example"), (b"host", b""), (b"host", b"[::1"), (b"content-length", b"-1"),
    (b"content-length", b"9" * 30), (b"content-length", b"\xff"), (b"content-type", b"text/html"),
    (b"content-type", b"\xff"), (b"authorization", b"\xff\x00"), (b"authorization", b"Bearer wrong"),
    (b"transfer-encoding", b"chunked"), (b"x" * 5000, b"y" * 5000), (b"expect", b"100-continue"),
]  # fmt: skip
TOKEN = "t" * 32


@cache
def model() -> Any:
    log = vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)
    users, items = ([f"{side}{one}" for one in ids] for side, ids in (("u", log.users), ("i", log.items)))
    return vr.MF(dim=4).fit(vr.Interactions.from_arrays(users, items), vr.Uniform(), epochs=1, seed=0)


@cache
def app(with_token: bool) -> Any:
    logging.getLogger("vitalrank").setLevel(logging.CRITICAL)
    ids = model().train.item_ids.tolist()
    columns = {"name": [f"Name of {one}" for one in ids], "genre": ["ab"[row % 2] for row in range(len(ids))]}
    snapshot = Snapshot(model(), {}, ItemTable(ids, columns, "name"))
    settings = ServerSettings(
        limits=Limits(seconds=1), token=TOKEN if with_token else None, hosts=frozenset({"127.0.0.1"}), window=0.0
    )
    return make_app(Reloader(lambda: snapshot, lambda: 0, Metrics()), settings)


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Where the servers live."""
    return asyncio.new_event_loop()


@cache
def started(with_token: bool) -> tuple[Any, asyncio.Task[None]]:
    """A server that is up, and the task of its life: the event loop holds no reference to it that keeps it."""
    server = app(with_token)
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    incoming.put_nowait({"type": "lifespan.startup"})
    life = loop().create_task(server({"type": "lifespan", "state": {}}, incoming.get, outgoing.put))
    assert loop().run_until_complete(outgoing.get())["type"] == "lifespan.startup.complete"
    assert not life.done()
    return server, life


def case(rng: Random) -> None:
    """Some requests to one server, half of them at the same time."""
    with_token = rng.random() < 0.1
    requests = [Request(rng) for _ in range(rng.choice([1, 8, 8, 70]))]
    answers = loop().run_until_complete(_serve(started(with_token)[0], requests))
    for request, (status, body) in zip(requests, answers, strict=True):
        request.check(status, body, with_token)


async def _serve(server: Any, requests: list[Request]) -> list[tuple[int, bytes]]:
    half = len(requests) // 2
    found = [await one.send(server) for one in requests[:half]]
    return found + list(await asyncio.gather(*(one.send(server) for one in requests[half:])))


class Request:
    """One request, as a web server hands it on."""

    def __init__(self, rng: Random) -> None:
        self.path = rng.choice(list(FIELDS)) if rng.random() < 0.9 else rng.choice(PATHS)
        names = FIELDS.get(self.path, [])
        self.method = rng.choice(["GET", "POST"]) if rng.random() < 0.95 else rng.choice(METHODS)
        self.fields = {
            name: self._value(rng, name) for name in rng.sample(names, rng.randrange(min(4, len(names) + 1)))
        }
        if names[:1] and rng.random() < 0.7:
            self.fields.setdefault(names[0], rng.choice(FITTING[names[0]]))
        if rng.random() < 0.05:
            self.fields["more"] = 1
        self.query, self.body, self.sent_as = b"", b"", [(b"host", b"127.0.0.1:80")]
        if self.method == "POST" and rng.random() < 0.95:
            self.sent_as.append((b"content-type", b"application/json"))
            self.body = json.dumps(self.fields).encode()
            if rng.random() < 0.1:
                place = rng.randrange(len(self.body) + 1)
                self.body = self.body[:place] + rng.choice(
                    [b"", b"\xff", b"[" * 90_000, b" " * 300_000, b"NaN", b"\x00"]
                )
        else:
            self.query = b"&".join(
                name.encode() + b"=" + (_typed(value) if rng.random() < 0.8 else rng.choice(QUERY))
                for name, value in self.fields.items()
            )
        if rng.random() < 0.5:
            self.sent_as.append((b"authorization", b"Bearer " + TOKEN.encode()))
        if rng.random() < 0.1:
            self.sent_as = [*self.sent_as, rng.choice(HEADERS)]
        self.parts = rng.choice([1, 1, 1, 2, 9])
        self.leaves = rng.random() < 0.02

    @staticmethod
    def _value(rng: Random, name: str) -> Any:
        return rng.choice(FITTING[name]) if rng.random() < 0.6 else rng.choice(ODD)

    async def send(self, server: Any) -> tuple[int, bytes]:
        """The status of the answer and its body; the status 0 where the caller left before."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": self.method, "scheme": "http",
            "path": self.path, "raw_path": self.path.encode(), "query_string": self.query, "root_path": "",
            "headers": self.sent_as, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "state": {},
        }  # fmt: skip
        step = max(1, -(-len(self.body) // self.parts))
        pieces = [self.body[start : start + step] for start in range(0, len(self.body), step)] or [b""]
        status, body = 0, b""

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            if self.leaves or not pieces:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def take(message: dict[str, Any]) -> None:
            nonlocal status, body
            if message["type"] == "http.response.start":
                assert status == 0, "answered twice"
                status = message["status"]
            else:
                body += message.get("body", b"")

        await server(scope, receive, take)
        return status, body

    def check(self, status: int, body: bytes, with_token: bool) -> None:
        """The answer is JSON without NaN; a refusal is one line; a list holds nothing that was seen or not allowed."""
        asked = (self.method, self.path, self.query[:300], self.body[:300], self.sent_as, status, body[:300])
        assert 200 <= status < 500, asked
        if self.path in ("/", "/docs", "/openapi.json", "/metrics") or self.method == "HEAD":
            return
        if with_token and status == 200 and self.path != "/health":
            assert any(name == b"authorization" and TOKEN.encode() in value for name, value in self.sent_as), asked
        found = json.loads(body, parse_constant=_refuse)
        if status != 200:
            assert set(found) == {"error"}, asked
            assert found["error"].isprintable(), asked
            assert len(found["error"]) < 1000, asked
        elif self.path == "/recommend":
            for one in found.get("results", [found]):
                self._check_list(one, asked)

    def _check_list(self, found: dict[str, Any], asked: Any) -> None:
        items = [entry["item"] for entry in found["items"]]
        assert len(set(items)) == len(items), asked
        log = model().train
        given = self.fields if self.method == "POST" else {}
        if found["user"] in log.user_ids.tolist() and not (given.get("seen") or b"seen" in self.query):
            row = int(log.user_index([found["user"]])[0])
            seen = log.item_ids[log.items[log.indptr[row] : log.indptr[row + 1]]].tolist()
            assert not set(seen) & set(items), asked
        assert set(items) <= set(given.get("items") or items), asked
        assert not set(items) & set(given.get("exclude_items") or []), asked


def _typed(value: Any) -> bytes:
    """A value in a query string."""
    text = value if isinstance(value, str) else json.dumps(value)
    return quote_from_bytes(text.encode("utf-8", "surrogatepass")).encode()


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")
