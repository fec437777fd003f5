"""The part of a download that has arrived, and what a server's answer says about the rest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from vitalrank._util.display import quoted
from vitalrank._util.files import write_text

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class Part:
    """``target.part`` and, beside it, the validator (ETag or Last-Modified) of the server's file."""

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(target.name + ".part")
        self._state = target.with_name(target.name + ".part.json")
        self._url = url
        self._validator = self._read_validator()

    def resumable_bytes(self, may_resume: bool) -> int:
        """Bytes to go on from; 0 where nothing would notice that the server's file is another one by now."""
        if self.path.is_symlink() or not self.path.is_file() or not (self._validator or may_resume):
            return 0
        return self.path.stat().st_size

    def range_headers(self, done: int) -> dict[str, str]:
        """Ask for the rest, or for the whole file if it has changed."""
        if not done:
            return {}
        return {"Range": f"bytes={done}-"} | ({"If-Range": self._validator} if self._validator else {})

    def remember(self, headers: Mapping[str, str]) -> None:
        """Write down which file of the server this is a part of."""
        self._validator = _validator_of(headers)
        if self._state.is_symlink():  # as for the part itself, none is followed
            self._state.unlink()
        write_text(self._state, json.dumps({"url": self._url, "validator": self._validator}))

    def is_same_version(self, headers: Mapping[str, str]) -> bool:
        """Whether an answer is of the file that the part is of, as far as the server says."""
        name = "ETag" if (self._validator or "").startswith('"') else "Last-Modified"
        return self._validator is None or headers.get(name, self._validator) == self._validator

    def open(self, append: bool) -> BinaryIO:
        """The file to write, never through a link."""
        if not append:
            self.path.unlink(missing_ok=True)
        return os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK, 0o666), "ab")

    def drop(self) -> None:
        """Forget what has arrived."""
        for path in (self.path, self._state):
            path.unlink(missing_ok=True)
        self._validator = None

    def _read_validator(self) -> str | None:
        with suppress(OSError, ValueError, AttributeError):
            state = json.loads(self._state.read_text(encoding="utf-8"))
            found = state.get("validator")
            if state.get("url") == self._url and isinstance(found, str) and found.isprintable():
                return found
        return None


def _validator_of(headers: Mapping[str, str]) -> str | None:
    """The strong ETag, or the date of the last change."""
    tag = headers.get("ETag") or ""
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


@dataclass(frozen=True)
class Reply:
    """Where the body of an answer belongs, or why it cannot be used."""

    start: int = 0
    total: int | None = None  # bytes of the whole file, if the server says
    problem: str | None = None

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], done: int) -> Reply:
        """Judge the answer to a request for what follows the first ``done`` bytes.

        Examples
        --------
        >>> Reply.of(206, {"Content-Range": "bytes 5-9/10", "Content-Length": "5"}, done=5)
        Reply(start=5, total=10, problem=None)
        >>> Reply.of(206, {"Content-Range": "bytes 0-9/10"}, done=5).problem
        "a part that was not asked for: 'bytes 0-9/10'"
        """
        length = (headers.get("Content-Length") or "").strip()
        if length and not re.fullmatch(r"[0-9]{1,18}", length):
            return cls(problem=f"no length but {quoted(length)}")
        if status == HTTPStatus.OK:
            return cls(0, int(length) if length else None)
        if status != HTTPStatus.PARTIAL_CONTENT:
            return cls(problem=f"status {status} and no file")
        given = headers.get("Content-Range") or ""
        found = _RANGE.fullmatch(given.strip())
        if found is None or not done or int(found[1]) != done or int(found[2]) < done:
            return cls(problem=f"a part that was not asked for: {quoted(given)}")
        size = int(found[2]) + 1 - done
        if found[3] == "*" or int(found[3]) <= int(found[2]) or (length and int(length) != size):
            return cls(problem=f"a part whose length is unclear: {quoted(given)}")
        return cls(done, int(found[3]))
