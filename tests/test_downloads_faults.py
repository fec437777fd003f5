"""Downloads from a scripted server on loopback: wrong ranges, changed files, pages instead of files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from vitalrank._util.downloads import download
from vitalrank.errors import DataError, StorageError

WHOLE = bytes(range(256)) * 40
TAG = {"ETag": '"one"'}
Answer = tuple[int, dict[str, str], bytes]


class Server(ThreadingHTTPServer):
    answers: list[Answer]
    asked: list[dict[str, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/log.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(dict(self.headers))
        status, headers, body = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.answers, running.asked = [], []
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def whole(extra: dict[str, str] | None = None) -> Answer:
    return 200, {"Content-Length": str(len(WHOLE))} | (extra or {}), WHOLE


def rest(start: int, end: int = len(WHOLE)) -> Answer:
    header = f"bytes {start}-{end - 1}/{len(WHOLE)}"
    return 206, {"Content-Range": header, "Content-Length": str(end - start)} | TAG, WHOLE[start:end]


def broken_off(server: Server, target: Path, headers: dict[str, str]) -> None:
    """Fetch the first 1000 bytes."""
    server.answers = [(200, {"Content-Length": str(len(WHOLE))} | headers, WHOLE[:1000])]
    with pytest.raises(DataError, match="run it again to go on"):
        download(server.url, target)


def test_a_part_goes_on_under_the_condition_that_the_file_is_the_same(server, tmp_path):
    target = tmp_path / "log.bin"
    broken_off(server, target, TAG)
    server.answers = [rest(1000)]
    assert download(server.url, target).read_bytes() == WHOLE
    assert (server.asked[1]["Range"], server.asked[1]["If-Range"]) == ("bytes=1000-", '"one"')
    assert [path.name for path in tmp_path.iterdir()] == ["log.bin"]


def test_a_file_that_changed_on_the_server_is_fetched_anew(server, tmp_path):
    broken_off(server, tmp_path / "log.bin", TAG)
    server.answers = [(200, {"ETag": '"two"', "Content-Length": "4"}, b"anew")]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == b"anew"


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_a_part_of_an_unknown_version_is_not_resumed(server, tmp_path, headers):
    broken_off(server, tmp_path / "log.bin", headers)
    server.answers = [whole()]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == WHOLE
    assert "Range" not in server.asked[1]


def test_a_date_identifies_a_version_too(server, tmp_path):
    broken_off(server, tmp_path / "log.bin", {"Last-Modified": "Mon, 02 Jan 2023 00:00:00 GMT"})
    server.answers = [rest(1000)]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == WHOLE
    assert server.asked[1]["If-Range"] == "Mon, 02 Jan 2023 00:00:00 GMT"


WRONG_RANGES = {
    "another start": (206, {"Content-Range": f"bytes 0-{len(WHOLE) - 1}/{len(WHOLE)}"}, WHOLE),
    "another version": (
        206,
        {"Content-Range": f"bytes 1000-{len(WHOLE) - 1}/{len(WHOLE)}", "ETag": '"two"'},
        WHOLE[1000:],
    ),
    "no range": (206, {}, WHOLE[1000:]),
    "no numbers": (206, {"Content-Range": "bytes all"}, WHOLE[1000:]),
    "unknown size": (206, {"Content-Range": f"bytes 1000-{len(WHOLE) - 1}/*"}, WHOLE[1000:]),
    "two lengths": (206, {"Content-Range": f"bytes 1000-1001/{len(WHOLE)}", "Content-Length": "1"}, b"x"),
}


@pytest.mark.parametrize("name", WRONG_RANGES)
def test_a_wrong_part_is_dropped_and_the_whole_is_asked_for(server, tmp_path, name):
    broken_off(server, tmp_path / "log.bin", TAG)
    server.answers = [WRONG_RANGES[name], whole()]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == WHOLE
    assert "Range" not in server.asked[2]


def test_a_short_part_is_no_complete_file(server, tmp_path):
    broken_off(server, tmp_path / "log.bin", TAG)
    server.answers = [rest(1000, 3000)]
    with pytest.raises(DataError, match="after 3,000 of 10,240 bytes"):
        download(server.url, tmp_path / "log.bin")
    assert not (tmp_path / "log.bin").exists()
    server.answers = [rest(3000)]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == WHOLE


USELESS = {
    "no content": ((204, {}, b""), "status 204 and no file"),
    "empty": ((200, {"Content-Length": "0"}, b""), "an empty file"),
    "a login page": ((200, {}, b"\n<!DOCTYPE html><html>Log in"), "a web page"),
    "no number": ((200, {"Content-Length": "abc"}, WHOLE), "no length but 'abc'"),
    "a part unasked": (rest(0), "a part that was not asked for"),
}


@pytest.mark.parametrize("name", USELESS)
def test_what_is_no_file_is_not_stored(server, tmp_path, name):
    answer, words = USELESS[name]
    server.answers = [answer]
    with pytest.raises(DataError, match=words):
        download(server.url, tmp_path / "log.bin")
    assert list(tmp_path.iterdir()) == []
    server.answers = [whole()]
    assert download(server.url, tmp_path / "log.bin").read_bytes() == WHOLE


@pytest.mark.parametrize(("name", "body"), [("a.zip", b"PK\x03\x04..."), ("a.csv.gz", b"\x1f\x8b...")])
def test_a_file_is_of_the_kind_that_its_name_says(server, tmp_path, name, body):
    (tmp_path / name).write_bytes(b"<html>stored by an earlier version")
    server.answers = [(200, {}, b"something else"), (200, {}, body)]
    with pytest.raises(DataError, match=r"the server sent no (zip|gz) file"):
        download(server.url, tmp_path / name)
    assert download(server.url, tmp_path / name).read_bytes() == body


@pytest.mark.parametrize("name", ["log.bin.part", "log.bin.part.json"])
def test_a_link_in_place_of_the_part_is_not_followed(server, tmp_path, name):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).symlink_to(tmp_path / "mine")
    server.answers = [whole()]
    assert download(server.url, tmp_path / "new" / "log.bin").read_bytes() == WHOLE
    assert (tmp_path / "mine").read_text() == "mine"


def test_two_downloads_into_one_folder_do_not_mix(server, tmp_path):
    from vitalrank._util.locks import only_writer

    with only_writer(tmp_path), pytest.raises(StorageError, match="writes here already"):
        download(server.url, tmp_path / "log.bin")
