"""What every request passes first: host, token, concurrency, the size of its body."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitalrank.errors import TrainingError, UnknownIdError, VitalrankError
from vitalrank.serving.web.limits import RequestError, ServerSettings
from vitalrank.serving.web.metrics import Metrics

logger = logging.getLogger(__name__)
OPEN = ("/", "/health", "/openapi.json", "/docs")  # without a token: they hold nothing of the log
_ALWAYS = ("/health", "/metrics")  # whatever the load
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),
]


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app
        What answers.
    settings
        Limits; the token, which callers must send as ``Authorization: Bearer TOKEN``; names in ``Host:`` that are
        answered. These keep pages of other sites, whose names resolve to this machine, from reading answers through a
        visitor's browser.
    metrics, paths
        Where requests are counted, and the paths that are counted by name.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, paths: frozenset[str]) -> None:
        self._app, self._limits, self._metrics, self._paths = app, settings.limits, metrics, paths
        self._token = None if settings.token is None else f"Bearer {settings.token}".encode()
        self._hosts = settings.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        path = scope["path"] if scope["path"] in self._paths else "other"
        started = False

        async def answer(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        self._metrics.in_flight += 1
        try:
            self._check(scope, path)
            await self._app(scope, await self._whole_body(scope, receive), answer)
        except Exception as error:
            refusal = as_refusal(error)
            if not started:
                await _refuse(answer, refusal)
        finally:
            self._metrics.in_flight -= 1
            self._metrics.observe(path, status, time.perf_counter() - began)

    def _check(self, scope: Scope, path: str) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._hosts is not None and _name(headers.get(b"host", b"")) not in self._hosts:
            raise RequestError(421, "this server does not answer to that host name; use the address it was started on.")
        if self._token is not None and path not in OPEN:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._token):
                raise RequestError(
                    401,
                    "send the token of --token-file as Authorization: Bearer TOKEN.",
                    {"www-authenticate": "Bearer"},
                )
        if self._metrics.in_flight > self._limits.concurrent and path not in _ALWAYS:
            most = self._limits.concurrent
            raise RequestError(429, f"more than {most} requests at once; try again.", {"retry-after": "1"})

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """A receive that gives the whole body, read already."""
        if scope["method"] in ("GET", "HEAD"):
            return receive
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        too_long = RequestError(413, f"the body is longer than {self._limits.body:,} bytes; ask for less at a time.")
        if not length.isdigit() or len(length) > 12 or int(length) > self._limits.body:
            raise too_long
        body = b""
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RequestError(400, "the caller left.")
                    body += message.get("body", b"")
                    if len(body) > self._limits.body:
                        raise too_long
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise RequestError(408, f"the body took longer than {self._limits.seconds} seconds.") from None
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again


def as_refusal(error: Exception) -> RequestError:
    """The status and the sentence for what went wrong."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, UnknownIdError):
        return RequestError(404, str(error))
    if isinstance(error, VitalrankError) and not isinstance(error, TrainingError):
        return RequestError(400, str(error))
    logger.error("request failed", exc_info=error)
    return RequestError(500, "the server could not answer; its log says why.")


async def _refuse(send: Send, refusal: RequestError) -> None:
    body = to_json_bytes({"error": str(refusal)})
    headers: Mapping[str, Any] = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **refusal.headers,
    }
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def to_json_bytes(value: object) -> bytes:
    """Compact JSON in ASCII, whatever the ids are made of."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _name(host: bytes) -> str:
    """The name in a Host header, without its port."""
    text = host.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
