"""One file from the web: resumed where it broke off, checked, and put in place only when complete.

Without a digest, nothing proves that a file is the one that its owner published: what is checked then is its length,
that a resumed file has not changed on the server, and that it is of the kind that its name says.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from vitalrank._util.display import first_line, printable, quoted
from vitalrank._util.locks import only_writer
from vitalrank._util.partial import Part, Reply
from vitalrank.errors import DataError, StorageError

CHUNK = 1 << 18
OnBytes = Callable[[int, int | None], None]  # bytes done, bytes in all if known
_MAGIC = {".zip": b"PK\x03\x04", ".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd", ".parquet": b"PAR1"}
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<?xml")


def cache_folder() -> Path:
    """Where downloads are stored: ``$XDG_CACHE_HOME/vitalrank``, or ``~/.cache/vitalrank``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "vitalrank"


def download(
    url: str,
    target: Path,
    sha256: str | None = None,
    progress: OnBytes | None = None,
    timeout: float = 60.0,
    *,
    is_kept: bool = True,
) -> Path:
    """Fetch a file unless it is there already.

    Bytes go to ``target.part`` first, with what identifies the server's file beside it. A later call goes on from there
    if the server's file is the same; the name ``target`` only ever holds a complete file.

    Parameters
    ----------
    url
        An http or https address.
    target
        Where the file belongs.
    sha256
        Its digest in hex; None means that only its length and its kind can be checked.
    progress
        Called with the bytes done and the bytes in all, if the server says.
    timeout
        Seconds to wait for an answer.
    is_kept
        Whether a later call finds what has arrived, which an error then says.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{printable(url, 200)}: not a web address; give http:// or https://.")
    if target.exists():
        _check_digest(target, sha256, url)
        if _wrong_content(target, target.name) is None:
            return target
    try:
        with only_writer(target.parent):
            part = Part(target, url)
            _fetch(url, part, progress, timeout, may_resume=sha256 is not None)
            _check_digest(part.path, sha256, url)
            problem = _wrong_content(part.path, target.name)
            if problem:
                part.drop()
                raise DataError(f"{url}: the server sent {problem}; open the address in a browser to see why.")
            part.path.replace(target)
            part.drop()
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        advice = "what has arrived is kept, so run it again to go on" if is_kept else "check the address, or try later"
        raise DataError(f"{printable(url, 200)}: {_reason(error)}; {advice}.") from error
    except (StorageError, DataError):
        raise
    except OSError as error:
        raise StorageError(
            f"{printable(target)}: cannot be written ({error.strerror}); choose another folder."
        ) from error
    return target


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {printable(error.reason, 80)}"
    reason = getattr(error, "reason", error)
    return first_line(reason) if isinstance(reason, BaseException) else printable(reason, 200)


def _fetch(url: str, part: Part, progress: OnBytes | None, timeout: float, may_resume: bool) -> None:
    """Append what is missing to the part file, or start anew where it cannot be resumed."""
    done = part.resumable_bytes(may_resume)
    headers = {"User-Agent": "vitalrank"} | part.range_headers(done)
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        if error.headers.get("Content-Range") == f"bytes */{done}":
            return  # it was complete and only not yet renamed
        part.drop()
        _fetch(url, part, progress, timeout, may_resume)
        return
    except ValueError as error:  # a redirection that cannot be followed
        raise DataError(f"{printable(url, 200)}: {first_line(error)}; give another address.") from error
    with answer:
        reply = Reply.of(answer.status, answer.headers, done)
        if url.startswith("https:") and not answer.url.startswith("https:"):
            raise DataError(f"{url}: leads to {quoted(answer.url, 200)}, which is not encrypted.")
        if reply.start > 0 and not part.is_same_version(answer.headers):
            reply = Reply(problem="a part of another version of the file")
        if reply.problem is None:
            part.remember(answer.headers)
            with part.open(append=reply.start > 0) as file:
                _receive(answer, file, reply, progress)
            return
    part.drop()
    if not done:
        raise DataError(f"{url}: the server sent {reply.problem}; try again later.")
    _fetch(url, part, progress, timeout, may_resume)


def _receive(answer: http.client.HTTPResponse, file: BinaryIO, reply: Reply, progress: OnBytes | None) -> None:
    done, total = reply.start, reply.total
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, total)
    if total is None:
        return
    if done < total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")
    file.truncate(total)  # more than it announced


def _wrong_content(path: Path, name: str) -> str | None:
    """What a file holds instead of what its name promises; None where it may be right."""
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        return "an empty file"
    expected = _MAGIC.get(Path(name).suffix.lower())
    if head.lstrip().lower().startswith(_PAGES) and not name.lower().endswith((".html", ".htm", ".xml")):
        return "a web page, such as one to log in or to report an error"
    if expected is not None and not head.startswith(expected):
        return f"no {Path(name).suffix[1:]} file"
    return None


def file_digest(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, sha256: str | None, url: str) -> None:
    """A file with a wrong digest is removed, so that the next call starts afresh."""
    if sha256 is None or (found := file_digest(path)) == sha256.lower():
        return
    path.unlink()
    with suppress(OSError):
        path.with_name(path.name + ".json").unlink()
    raise DataError(f"{url}: sha256 is {found}, not {sha256}; the file is damaged or has changed. Run it again.")
