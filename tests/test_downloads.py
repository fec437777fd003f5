"""Downloads, against a server on loopback that can resume, break off and lie."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from vitalrank._util.downloads import cache_folder, download
from vitalrank.errors import DataError, StorageError

CONTENT = bytes(range(256)) * 4000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT and notes the ranges asked for."""

    ranges: list[str | None]
    cut_after: int | None = None
    resumes = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        if "missing" in self.path:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.resumes else 0
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        body = CONTENT[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut_after])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.ranges = []
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_reports_its_progress(server: Server, tmp_path: Path) -> None:
    steps: list[tuple[int, int | None]] = []
    target = download(server.url, tmp_path / "new" / "data.bin", DIGEST, lambda *step: steps.append(step))
    assert target.read_bytes() == CONTENT
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["data.bin"]


def test_a_broken_download_is_resumed(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.bin"
    server.cut_after = 300_000
    with pytest.raises(DataError, match="run it again to go on"):
        download(server.url, target, DIGEST)
    assert not target.exists()
    server.cut_after = None
    download(server.url, target, DIGEST)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=300000-"]


def test_a_server_that_cannot_resume_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(b"old")
    server.resumes = False
    assert download(server.url, tmp_path / "data.bin", DIGEST).read_bytes() == CONTENT


def test_a_part_that_was_complete_is_only_renamed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    assert download(server.url, tmp_path / "data.bin", DIGEST).read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_a_part_longer_than_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"more")
    assert download(server.url, tmp_path / "data.bin", DIGEST).read_bytes() == CONTENT


def test_a_file_in_the_cache_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(CONTENT)
    download(server.url, tmp_path / "data.bin", DIGEST)
    assert server.ranges == []


@pytest.mark.parametrize("start", ["", "data.bin", "data.bin.part"])
def test_a_wrong_digest_leaves_nothing_behind(server: Server, tmp_path: Path, start: str) -> None:
    if start:
        (tmp_path / start).write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="sha256 is"):
        download(server.url, tmp_path / "data.bin", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_server_are_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="404 Not Found"):
        download(server.url.replace("data", "missing"), tmp_path / "data.bin")
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9"):
        download("http://127.0.0.1:9/x", tmp_path / "x", timeout=2)
    with pytest.raises(DataError, match="not a web address"):
        download("file:///etc/hostname", tmp_path / "x")


def test_a_place_that_cannot_be_written_is_told(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        download(server.url, tmp_path / "file" / "data.bin")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "vitalrank"
