"""What a caller may ask of the server, and what it answers to anything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from vitalrank._util.checks import check_count


@dataclass(frozen=True)
class Limits:
    """The most that one request, or all at once, may take.

    Parameters
    ----------
    body
        Bytes of a request's body.
    n
        Length of a list of results.
    ids
        Ids in a list: a history, an allow list, a block list.
    batch
        Users, items or histories of one request.
    concurrent
        Requests in progress.
    seconds
        For a body to arrive.
    """

    body: int = 1 << 18
    n: int = 1000
    ids: int = 5000
    batch: int = 64
    concurrent: int = 512
    seconds: int = 10

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_count(name, value)


@dataclass(frozen=True)
class ServerSettings:
    """How a server behaves.

    Parameters
    ----------
    limits
        What a caller may ask.
    token
        What callers must send; None asks for none.
    hosts
        Names that are answered to; None: all.
    window
        Seconds in which requests gather into one batch.
    poll
        Seconds between looks at the run folder.
    """

    limits: Limits = field(default_factory=Limits)
    token: str | None = None
    hosts: frozenset[str] | None = None
    window: float = 0.001
    poll: float = 1.0


class RequestError(Exception):
    """A request that is refused: an HTTP status and one sentence."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
