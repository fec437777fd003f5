"""Bounds on what a connection sends before there is a request to judge: uvicorn itself has none."""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = 1 << 16  # bytes of a request line and headers
_MESSAGE = 1 << 20  # bytes of a whole request; the Guard refuses a long body sooner, with a sentence
_WAITING = 64  # requests sent ahead of the answers to others
_SECONDS = 30.0  # for a request to arrive
_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large"}


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn, for callers who may be hostile.

    A head without an end, requests sent ahead without reading answers, and bodies that go on after they were refused
    would grow in memory, before any token is asked for; a request that never ends would hold its connection.
    """

    _size = 0  # bytes of the request that is arriving; it may exceed a bound by what one read brings
    _is_head = True
    _began = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._began = self.loop.time()
        self.loop.call_later(_SECONDS, self._look)

    def data_received(self, data: bytes) -> None:
        if self._size > (_HEAD if self._is_head else _MESSAGE):
            self._refuse(431 if self._is_head else 400, "the request is too long.")
            return
        if not self._size:
            self._began = self.loop.time()
        self._size += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _WAITING:
            raise ValueError(f"more than {_WAITING} requests wait on one connection")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head, self._size = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is no HTTP request that is understood here.")

    def _refuse(self, status: int, message: str) -> None:
        """Say what is wrong, unless another answer is being written, and close the connection."""
        if not self._is_answering():
            body = json.dumps({"error": message}).encode()
            self.transport.write(
                f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
            )  # fmt: skip
        self.transport.close()

    def _look(self) -> None:
        """Close a connection whose request does not arrive; those between two requests are uvicorn's to close."""
        if self.transport.is_closing():
            return
        is_arriving = self._size > 0 or self.cycle is None
        if is_arriving and not self._is_answering() and self.loop.time() - self._began >= _SECONDS:
            self.transport.close()
        else:
            self.loop.call_later(_SECONDS, self._look)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete
