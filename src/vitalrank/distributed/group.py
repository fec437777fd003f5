"""A group of ranks: processes that torchrun started, and the messages between them."""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from vitalrank._util.display import first_line
from vitalrank._util.typing import Array
from vitalrank.distributed.monitor import Monitor, StoreGoneError
from vitalrank.distributed.process_group import ProcessGroup
from vitalrank.errors import GroupError, VitalrankError

Value = TypeVar("Value")
_CHUNK = 1 << 26  # bytes of one message about many rows, so that each is soon through


class Group(ProcessGroup):
    """The ranks of a run; all of them call the same methods in the same order.

    Parameters
    ----------
    store
        The key-value store of the ranks.
    rank, size
        This one, and how many there are.
    process_group
        Of ``torch.distributed``; None for the default one.
    patience
        Seconds without a sign of life after which a rank counts as gone.
    """

    def __init__(self, store: Any, rank: int, size: int, process_group: Any, patience: float) -> None:
        self.rank = rank
        self.size = size
        self.patience = patience
        self.is_broken = False
        self._process_group = process_group
        self._nothing = torch.zeros(1)
        self._reported: BaseException | None = None  # an error of this rank that the others know already
        self._monitor = Monitor(store, rank, size)
        self.hosts = ["its machine"] * size  # until they are known
        self.hosts = [str(host) for host in self.all_gather_objects(socket.gethostname())]

    # ------------------------------------------------------------------------------------------------ messages

    def all_gather(self, memory: Array | torch.Tensor, starts: Sequence[int], sizes: Sequence[int]) -> None:
        """Send every rank's piece of ``memory`` (flat, an array or a tensor) to all ranks; pieces differ in length.

        Rank r's piece is ``memory[starts[r] : starts[r] + sizes[r]]``; this rank's own is there already.
        """
        self.all_gather_parts((memory, starts, sizes))

    def all_gather_parts(self, *parts: tuple[Any, Sequence[int], Sequence[int]]) -> None:
        """Several such exchanges at once."""
        peers = [(self.rank + step) % self.size for step in range(1, self.size)]
        receives, sends = list[tuple[Any, torch.Tensor, int]](), list[tuple[Any, torch.Tensor, int]]()
        for memory, starts, sizes in parts:
            flat = memory if isinstance(memory, torch.Tensor) else torch.from_numpy(memory)
            pieces = [flat[start : start + size] for start, size in zip(starts, sizes, strict=True)]
            receives += [(dist.irecv, pieces[r], r) for r in peers if sizes[r]]
            sends += [(dist.isend, pieces[self.rank], r) for r in reversed(peers) if sizes[self.rank]]
        with self._connected():
            if (calls := receives + sends) and calls[0][1].is_cuda:  # NCCL wants all of them as one call
                works = dist.batch_isend_irecv([dist.P2POp(*one, self._process_group) for one in calls])
            else:
                works = [call(piece, rank, self._process_group) for call, piece, rank in calls]
            for work in works:
                work.wait()

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """The sum over all ranks, in place: the same bits on each, and again for as many ranks."""
        with self._connected():
            dist.all_reduce(tensor, group=self._process_group)

    def synchronize(self) -> None:
        """Wait for all ranks, no longer than for a message; a sum of one number takes the fewest turns of threads."""
        with self._connected():
            dist.all_reduce(self._nothing, group=self._process_group)

    def all_gather_objects(self, value: object) -> list[Any]:
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        sizes[self.rank] = len(text)
        self.all_gather(sizes, range(self.size), [1] * self.size)
        starts = np.cumsum(sizes) - sizes
        memory = np.zeros(int(sizes.sum()), np.uint8)
        memory[starts[self.rank] : starts[self.rank] + len(text)] = text
        self.all_gather(memory, starts.tolist(), sizes.tolist())
        pieces = zip(starts.tolist(), sizes.tolist(), strict=True)
        return [json.loads(bytes(memory[start : start + size])) for start, size in pieces]

    def on_rank_zero(self, work: Callable[[], Value]) -> Value:
        result, error = None, None
        if self.is_rank_zero:
            try:
                result = work()
            except VitalrankError as failed:
                error = failed
        self.barrier()  # the work may take long
        said = self.all_gather_objects(None if error is None else str(error))[0]
        if error is not None:
            self._reported = error
            raise error
        if said is not None:
            raise GroupError(f"rank 0 stopped: {said}")
        return self.all_gather_objects(result)[0]  # type: ignore[no-any-return]

    def all_gather_rows(self, array: Array) -> Array:
        each = math.prod(array.shape[1:]) * array.itemsize
        counts = [int(count) for count in self.all_gather_objects(len(array))]
        sizes = [count * each for count in counts]
        starts = (np.cumsum(sizes) - sizes).tolist()
        memory = np.empty(sum(sizes), np.uint8)
        own = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        memory[starts[self.rank] : starts[self.rank] + len(own)] = own
        self.all_gather(memory, starts, sizes)
        return memory.view(array.dtype).reshape(sum(counts), *array.shape[1:])

    def gather_rows(self, own: Array, bounds: Sequence[int], whole: Array | None) -> None:
        to_all = self.all_ranks(whole is not None)
        if whole is not None:
            whole[bounds[self.rank] : bounds[self.rank + 1]] = own
        for root in range(self.size if to_all else 1):
            for source in range(self.size):
                if source == root:
                    continue
                target = None if whole is None else whole[bounds[source] : bounds[source + 1]]
                count = bounds[source + 1] - bounds[source]
                self._send_rows(own, target, count, source, root)

    def scatter_rows(self, whole: Array | None, bounds: Sequence[int], own: Array) -> None:
        if whole is not None and self.is_rank_zero:
            own[...] = whole[bounds[0] : bounds[1]]
        for target in range(1, self.size):
            rows = None if whole is None else whole[bounds[target] : bounds[target + 1]]
            self._send_rows(rows, own, bounds[target + 1] - bounds[target], 0, target)

    def broadcast(self, array: Array) -> None:
        """Overwrite a table with that of rank 0, on all ranks."""
        for target in range(1, self.size):
            self._send_rows(array, array, len(array), 0, target)

    def send_receive(self, sent: Array, target: int, received: Array, source: int) -> None:
        """Send rows to one rank while receiving others (C-contiguous) from another; every rank calls this at once."""
        for out, into in zip_longest(_pieces(sent), _pieces(received)):
            with self._connected():
                waits = [] if into is None else [self._receive(torch.from_numpy(into), source)]
                waits += [] if out is None else [self._send(torch.from_numpy(out), target)]
                for wait in waits:
                    wait.wait()

    def _send_rows(self, rows: Array | None, target: Array | None, count: int, source: int, root: int) -> None:
        """Send ``count`` rows from rank ``source`` to rank ``root``, in pieces."""
        given = rows if self.rank == source else target
        if self.rank not in (source, root) or given is None or count == 0:
            return
        for piece in _pieces(given[:count]):
            with self._connected():
                if self.rank == source:
                    self._send(torch.from_numpy(np.ascontiguousarray(piece)), root).wait()
                else:
                    received = np.empty(piece.shape, piece.dtype)
                    self._receive(torch.from_numpy(received), source).wait()
                    piece[...] = received

    def _send(self, tensor: torch.Tensor, rank: int) -> Any:
        return dist.isend(tensor, rank, self._process_group)

    def _receive(self, tensor: torch.Tensor, rank: int) -> Any:
        return dist.irecv(tensor, rank, self._process_group)

    # ------------------------------------------------------------------------------------------------ failures

    def barrier(self) -> None:
        try:
            gone = self._monitor.barrier(self.patience)
        except StoreGoneError as error:
            self._lost(error)
        if gone:
            self._lost(None)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # of torch.distributed: a peer closed its connection, or the time is over
            self._lost(error)

    def _lost(self, error: Exception | None) -> NoReturn:
        """Raise GroupError with the rank that failed or is gone."""
        self.is_broken = True
        try:
            failure = self._monitor.wait_for_failure(seconds=2.0)
            if failure is not None:
                raise GroupError(
                    f"rank {failure.rank} on {self.hosts[failure.rank]} stopped: {failure.message}"
                ) from None
            gone = self._monitor.unresponsive(seconds=6.0)
        except StoreGoneError:
            gone = [0]
        if not gone:
            detail = "" if error is None else f" ({first_line(error)})"
            raise GroupError(
                f"the connection between the ranks broke{detail} although all are alive; see that the interface of "
                "GLOO_SOCKET_IFNAME reaches all machines, then resume the run."
            ) from error
        names = ", ".join(f"{rank} on {self.hosts[rank]}" for rank in gone)
        raise GroupError(
            f"rank {names} is gone without an error message: killed, out of memory, or its machine is; resume the run.",
            gone=gone,
        ) from error

    @contextmanager
    def stop_others_on_error(self) -> Iterator[None]:
        try:
            yield
        except GroupError:
            self.close()
            raise
        except BaseException as error:
            if error is not self._reported:  # else the others know
                self._monitor.report_failure(first_line(error) or type(error).__name__)
            self.close()
            raise

    def close(self) -> None:
        """Leave the group; the others find the connection closed."""
        self.is_broken = True
        self._monitor.close()
        with suppress(RuntimeError, ValueError, AssertionError):
            dist.destroy_process_group(self._process_group)


def _pieces(rows: Array) -> Iterator[Array]:
    """The rows, so many at a time as one message holds."""
    step = max(1, _CHUNK // max(rows[:1].nbytes, 1))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]
