"""One file from the web: resumed where it broke off, checked, and put in place only when complete."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vitalrank.errors import DataError, StorageError

CHUNK = 1 << 18
Progress = Callable[[int, int | None], None]  # bytes done, bytes in all if known


def cache_folder() -> Path:
    """Where downloads are kept: ``$XDG_CACHE_HOME/vitalrank``, or ``~/.cache/vitalrank``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "vitalrank"


def download(
    url: str, target: Path, sha256: str | None = None, progress: Progress | None = None, timeout: float = 60.0
) -> Path:
    """Fetch a file unless it is there already.

    Bytes go to ``target.part`` first. A later call goes on from there if the server can; the name ``target`` only
    ever holds a complete file with the right digest.

    Parameters
    ----------
    url
        An http or https address.
    target
        Where the file belongs.
    sha256
        Its digest in hex; None takes the file as it comes.
    progress
        Called with the bytes done and the bytes in all, if the server says.
    timeout
        Seconds to wait for an answer.
    """
    if not url.startswith(("http://", "https://")):
        raise DataError(f"{url}: not a web address; give http:// or https://.")
    if target.exists():
        _check_digest(target, sha256, url)
        return target
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(url, part, progress, timeout)
        _check_digest(part, sha256, url)
        part.replace(target)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise DataError(f"{url}: {_reason(error)}; what has arrived is kept, so run it again to go on.") from error
    except OSError as error:
        raise StorageError(f"{target}: cannot be written ({error.strerror}); choose another folder.") from error
    return target


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    return str(getattr(error, "reason", error)) or type(error).__name__


def _fetch(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """Append what is missing to the part file, or start anew if the server does not resume."""
    done = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "vitalrank"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        if error.headers.get("Content-Range") == f"bytes */{done}":
            return  # it was complete and only not yet renamed
        part.unlink()
        _fetch(url, part, progress, timeout)
        return
    with answer:
        resumed = (answer.headers.get("Content-Range") or "").startswith(f"bytes {done}-")
        _receive(answer, part, done if resumed else 0, progress)


def _receive(answer: Any, part: Path, done: int, progress: Progress | None) -> None:
    length = answer.headers.get("Content-Length")
    total = done + int(length) if length else None
    with part.open("ab" if done else "wb") as file:
        while chunk := answer.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def digest_of(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, sha256: str | None, url: str) -> None:
    """A file with a wrong digest is removed, so that the next call starts afresh."""
    if sha256 is None or (found := digest_of(path)) == sha256.lower():
        return
    path.unlink()
    raise DataError(f"{url}: sha256 is {found}, not {sha256}; the file is damaged or has changed. Run it again.")
