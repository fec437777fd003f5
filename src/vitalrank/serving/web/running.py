"""Sockets, signals and the life of a server process."""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from vitalrank._util.display import printable, quoted
from vitalrank.errors import SettingError
from vitalrank.serving.web.protocol import BoundedProtocol

_LEAST = 16  # characters of a token
_LONGEST = 4096


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def check_open(host: str, token: str | None) -> None:
    """Refuse to serve other machines without a token."""
    if not is_loopback(host) and token is None:
        raise SettingError(
            f"--host {quoted(host)} is reached by other machines; give --token-file, or leave out --host."
        )


def hosts_of(host: str, token: str | None) -> frozenset[str] | None:
    """Names that a server without a token answers to; with one, any."""
    return None if token is not None else frozenset({"localhost", "127.0.0.1", "[::1]", host.lower()})


def read_token(path: Path) -> str:
    """The token in a file that nobody else may read."""
    where = printable(path)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_LONGEST + 1).decode("ascii").strip()
    except (OSError, UnicodeError) as error:
        raise SettingError(
            f"{where}: cannot be read as a token ({type(error).__name__}); give a file of ASCII text."
        ) from error
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(f"{where}: others may read this token; chmod 600 it first.")
    if not _LEAST <= len(text) <= _LONGEST or not text.isprintable() or " " in text:
        raise SettingError(
            f"{where}: a token is one word of {_LEAST} to {_LONGEST} characters; openssl rand -hex 32 makes one."
        )
    return text


def listen(host: str, port: int) -> socket.socket:
    """A socket that waits for callers; SettingError says why there can be none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(
            f"cannot listen on {printable(host)} port {port} ({reason}); give another --port or --host."
        ) from error
    return found


def address_of(listening: socket.socket) -> str:
    """The address as a URL."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run_server(app: ASGIApp, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; requests in progress are answered first."""
    config = uvicorn.Config(
        app, http=BoundedProtocol, log_level=logging.ERROR, access_log=False, server_header=False, proxy_headers=False,
        ws="none", timeout_keep_alive=30, timeout_graceful_shutdown=15, backlog=2048,
    )  # fmt: skip
    with _settled_heap():
        _Server(config, on_ready).run(sockets=[listening])


@contextlib.contextmanager
def _settled_heap() -> Iterator[None]:
    """Keep what is loaded by now out of the garbage collector's rounds.

    Modules and compiled kernels are some 160,000 objects that never become garbage; a full round over them holds all
    requests up for 0.07 s and more. Objects made later, those of a reloaded model included, are collected as ever.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Server(uvicorn.Server):
    """A stop that was asked for is no failure: the signal is not raised again once all is answered."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        try:
            before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # outside the main thread: whoever started it stops it
            before = {}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
