"""The application of the server: routes, fixed pages, and every error as an answer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import vitalrank
from vitalrank.serving.web import openapi
from vitalrank.serving.web.fields import Fields
from vitalrank.serving.web.guard import Guard, as_refusal, to_json_bytes
from vitalrank.serving.web.handlers import Answer, Api
from vitalrank.serving.web.limits import Limits, RequestError, ServerSettings
from vitalrank.serving.web.reloading import Reloader

_STYLED = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


def make_app(reloader: Reloader, settings: ServerSettings) -> Guard:
    """The ASGI application of a server."""
    metrics = reloader.metrics
    api = Api(reloader, settings, metrics)
    description = openapi.describe(settings.limits, vitalrank.__version__)
    page = files("vitalrank.serving.web").joinpath("page.html").read_text("utf-8")
    either = ["GET", "POST"]
    handlers = {"/recommend": (api.recommend, either), "/similar": (api.similar, either),
                "/fold-in": (api.fold_in, ["POST"]), "/explain": (api.explain, either),
                "/history": (api.history, ["GET"]), "/items": (api.items, ["GET"]), "/users": (api.users, ["GET"]),
                "/health": (api.health, ["GET"])}  # fmt: skip
    routes = [
        Route(path, _endpoint(handle, settings.limits), methods=allowed) for path, (handle, allowed) in handlers.items()
    ]
    routes += [
        Route("/metrics", api.metrics),
        Route("/openapi.json", _fixed(to_json_bytes(description), "application/json")),
        Route("/docs", _fixed_page(openapi.show(description))),
        Route("/", _fixed_page(page)),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (api.batcher.run(), reloader.watch(settings.poll))]
        yield
        for task in tasks:
            task.cancel()

    inner = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _no_path, 405: _no_method})
    inner.router.redirect_slashes = False  # a path that is almost one is none: 404 and a sentence
    return Guard(inner, settings, metrics, frozenset(route.path for route in routes))


def _endpoint(
    handle: Callable[[Fields], Awaitable[Answer]], limits: Limits
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return Response(
                to_json_bytes(await handle(await _fields_of(request, limits))), media_type="application/json"
            )
        except Exception as error:  # here, before Starlette takes it for a failure of the server
            return _refused(error)

    return answer


def _fixed(
    body: bytes, media_type: str, headers: dict[str, str] | None = None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(body, media_type=media_type, headers=headers)

    return answer


def _fixed_page(html: str) -> Callable[[Request], Awaitable[Response]]:
    """A page that may run its own script and style and load nothing."""
    allowed: dict[str, list[str]] = {"style": [], "script": []}
    for kind, text in _STYLED.findall(html):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[kind].append(f"'sha256-{digest}'")
    rules = "; ".join(f"{kind}-src {' '.join(hashes)}" for kind, hashes in allowed.items() if hashes)
    policy = (
        f"default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; {rules}"
    )
    return _fixed(html.encode(), "text/html; charset=utf-8", {"content-security-policy": policy})


async def _fields_of(request: Request, limits: Limits) -> Fields:
    if request.method != "POST":
        return Fields(dict(request.query_params), limits, typed=True)
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise RequestError(415, "send JSON, with Content-Type: application/json.")
    return Fields.of_json(await request.body(), limits)


def _refused(error: Exception) -> Response:
    refusal = as_refusal(error)
    return Response(to_json_bytes({"error": str(refusal)}), refusal.status, refusal.headers, "application/json")


async def _no_path(request: Request, error: Exception) -> Response:
    return _refused(RequestError(404, "no such path; /docs lists them."))


async def _no_method(request: Request, error: Exception) -> Response:
    return _refused(RequestError(405, "this method is not answered here; /docs says what is."))
