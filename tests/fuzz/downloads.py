"""A server that lies, and damaged archives: what is stored is a whole body that was sent, unpacked as it was packed."""

from __future__ import annotations

import tempfile
import threading
import zipfile
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz._mutations import mutate_bytes
from tests.fuzz.readers import check_message

import vitalrank as vr
from vitalrank._util.downloads import download
from vitalrank.datasets.archives import unpack

VERSIONS = {'"one"': bytes(range(256)) * 8, '"two"': bytes(range(255, -1, -1)) * 9}
BODIES = [b"", b"x", b"<!DOCTYPE html><html>Log in", b"\n  <html>", b"PK\x03\x04rubbish", b"\x00" * 5000]
LENGTHS = ["abc", "-1", "", "1e3", "9" * 30, "0x10", "5, 5", "0", "1"]
RANGES = ["bytes all", "", "bytes */*", "bytes 5-1/2", "bytes 0-/9", "items 0-1/2", "bytes 1-2/" + "9" * 5000, "\xff"]
NAMES = ["log.bin", "log.zip", "log.gz"]


class Server(ThreadingHTTPServer):
    """Serves what the case asks for; ``bodies`` are those that a client may take for a whole file."""

    rng: Random
    bodies: list[bytes]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        rng = self.server.rng
        tag, whole = rng.choice(sorted(VERSIONS.items()))
        choice = rng.random()
        if choice < 0.35:
            self.part(rng, tag, whole)
        elif choice < 0.75:
            self.whole(rng, tag, whole)
        elif choice < 0.9:
            self.whole(rng, rng.choice(['"body"', 'W/"weak"', "", "\x01"]), rng.choice(BODIES))
        elif choice < 0.97:
            self.answer(rng.choice([204, 301, 302, 304, 403, 404, 416, 429, 500, 503, 999]), {}, b"no")
        else:
            self.wfile.write(rng.choice([b"", b"HTTP", b"\x00" * 100, b"HTTP/1.1 two OK\r\n\r\n", b"A" * 70_000]))

    def whole(self, rng: Random, tag: str, body: bytes) -> None:
        length = rng.choice([str(len(body))] * 4 + [str(len(body) + 9), str(len(body) // 2), *LENGTHS, None])
        headers = {} if length is None else {"Content-Length": length}
        count = int(length) if length is not None and length.isdecimal() else len(body)
        if count <= len(body):
            self.server.bodies.append(body[:count])
        sent = body if rng.random() < 0.6 else body[: rng.randrange(len(body) + 1)]
        if length is None or not length.isdecimal():
            self.server.bodies.append(sent)  # nothing says that it is not whole
        self.answer(200, headers | ({"ETag": tag} if rng.random() < 0.8 else {}), sent)

    def part(self, rng: Random, tag: str, whole: bytes) -> None:
        asked = self.headers.get("Range", "bytes=0-")[len("bytes=") :].rstrip("-")
        start = int(asked) if asked.isdecimal() and rng.random() < 0.8 else rng.choice([0, 1, 100])
        end = rng.choice([len(whole), len(whole), min(start + 100, len(whole))])
        span = f"bytes {start}-{end - 1}/{len(whole)}" if rng.random() < 0.7 else rng.choice(RANGES)
        headers = {"ETag": tag, "Content-Range": span}
        if rng.random() < 0.7:
            headers["Content-Length"] = rng.choice([str(max(end - start, 0)), *LENGTHS])
        self.answer(206, headers, whole[start:end])

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status, "answer")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@cache
def server() -> Server:
    running = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    return running


def archive(rng: Random, folder: Path) -> None:
    """A zip archive that is damaged: its member is unpacked as it was packed, or both are gone."""
    path, text = folder / "log.zip", b"user,item\n1,2\n" * rng.choice([1, 50, 5000])
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(path, "w", rng.choice(kinds)) as packed:
        packed.writestr("set/log.csv", text)
    mutate_bytes(rng, path)
    try:
        assert unpack(path, rng.choice(["set/log.csv"] * 9 + ["log.csv"])).read_bytes() == text
    except vr.DataError as error:
        check_message(str(error))
        assert not list(folder.iterdir())
        raise


def case(rng: Random) -> None:
    if rng.random() < 0.3:
        with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as folder:
            archive(rng, Path(folder))
        return
    running = server()
    running.rng, running.bodies = rng, list(VERSIONS.values())
    with tempfile.TemporaryDirectory(prefix="vitalrank-fuzz-") as folder:
        target = Path(folder) / rng.choice(NAMES)
        (Path(folder) / "notes.txt").write_text("mine")
        for _ in range(4):
            try:
                found = download(f"http://127.0.0.1:{running.server_port}/{target.name}", target, timeout=5.0)
            except vr.VitalrankError as error:
                message = str(error)
                assert not target.exists(), message
                check_message(message)
            else:
                assert found.read_bytes() in running.bodies
                target.unlink()
        assert (Path(folder) / "notes.txt").read_text() == "mine"
