"""What ``ranks.py`` derives from the numbers that it saved: a model of larger groups, and the tables of the README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from _rank_stages import BATCH, DIM

OWN = ("message", "exchange", "lay out")  # stages that a process alone has not
SHARED = ("load", "draw", "update, users", "message")  # stages of which each rank has its share
ALL_RANKS = ("lay out", "update")
RANKS, ROWS, GBIT = (1, 8, 16, 32, 64), (10**9, 10**10, 10**11), (10, 100)
SAMPLERS = {"uni": "Uniform", "vins": "VINS"}
ASSUMED = (
    "mode exact; one rank a machine, one thread a rank; time for a positive of load, draw, the users' half of the "
    "update and the message falls with the ranks, that of laying out and of the items' update does not; every rank "
    "receives the messages of all others over its own full-duplex link, at its full rate, not overlapped with the "
    "rest; rows are spread evenly; caches as at this log's size; nobody dies"
)


def model(found: dict[str, float], alone: float, message_bytes: float) -> dict[str, Any]:
    """Hours of an epoch by the stages measured here with one thread a rank: a model, not a measurement.

    ``alone`` are the milliseconds of a step of one process with one thread, and one rank of the model.
    """
    shared = sum(found[name] for name in SHARED) * 2 / BATCH / 1e3  # of two ranks; seconds for a positive
    all_ranks = sum(found[name] for name in ALL_RANKS) / BATCH / 1e3
    hours: dict[str, dict[str, dict[str, float]]] = {}
    for gbit in GBIT:
        for rows in ROWS:
            for ranks in RANKS:
                transfer = message_bytes * 8 * (ranks - 1) / ranks / (gbit * 1e9)
                each = shared / ranks + all_ranks + transfer if ranks > 1 else alone / BATCH / 1e3
                row = hours.setdefault(f"{gbit} Gbit", {}).setdefault(f"{rows:.0e}", {})
                row[str(ranks)] = round(rows * each / 3600, 3)
    return {
        "a model, not a measurement, which assumes": ASSUMED,
        "microseconds a positive": {"shared by the ranks": 1e6 * shared, "on every rank": 1e6 * all_ranks},
        "hours of an epoch": hours,
    }


def tables(results: dict[str, Any]) -> str:
    """The saved parts in Markdown."""
    makers = {"stages": _stages, "links": _links, "memory": _memory}
    parts = [list(maker(results[name])) for name, maker in makers.items() if name in results]
    return "\n".join(line for part in parts for line in (*part, "")) or "nothing is saved yet"


def _row(name: str, values: Sequence[object]) -> str:
    return f"| {name} | " + " | ".join(map(str, values)) + " |"


def _header(name: str, columns: Sequence[object], note: str) -> Iterator[str]:
    yield note
    yield ""
    yield _row(name, columns)
    yield "|---" * (1 + len(columns)) + "|"


def _when(part: dict[str, Any]) -> str:
    load = " to ".join(map(str, part["load"]))
    return f"{part['finished']}, {part['machine']['cpu']}, load {load} on {part['machine']['cores']} cores"


def _stages(part: dict[str, Any]) -> Iterator[str]:
    cores = ", ".join(map(str, part["parallelism"]))
    note = f"Log of {part['rows']:,} rows, batch {BATCH}, dim {DIM}; {_when(part)}; parallelism of the cores {cores}."
    yield from _header("stage, ms a step: median (10 % quantile)", list(SAMPLERS.values()), note)

    def cells(value: Any) -> list[str]:
        return [value(part[sampler]) for sampler in SAMPLERS]

    def two(found: dict[str, Any], names: Sequence[str], way: str) -> str:
        middle, fast = (found[key][way] for key in ("stages, ms", "10 % quantile of the stages, ms"))
        return f"{sum(middle[name] for name in names):.2f} ({sum(fast[name] for name in names):.2f})"

    def one(found: dict[str, Any]) -> str:
        return f"{found['one process, ms']['step']:.2f} ({found['one process, 10 % quantile, ms']['step']:.2f})"

    names = {
        "load, draw, the users' half of the update: a rank's share": ("load", "draw", "update, users"),
        "the items' half of the update: every rank": ("update",),
        "packing the message: a rank's share": ("message",),
        "laying out: every rank": ("lay out",),
        "exchange": ("exchange",),
        "waiting for the other rank": ("waiting",),
        "Python between them": ("rest",),
        "step": ("step",),
    }
    for way in ("shared memory", "loopback"):
        for name, stages in names.items():
            yield _row(f"{way}: {name}", cells(lambda found, s=stages, w=way: two(found, s, w)))
        yield _row(
            f"{way}: **overhead**, share of a step without waiting",
            cells(
                lambda found, w=way: (
                    f"{found['overhead'][w]:.1%} ({found['overhead, 10 % quantile'][w]:.1%}); "
                    f"turns {', '.join(f'{one:.1%}' for one in found['overheads'][w])}"
                )
            ),
        )
    yield _row("one process with one thread: step", cells(one))
    yield _row("2 ranks x 1 thread, in 1 process x 2 threads", cells(lambda found: found["2 x 1 against 1 x 2"]))
    yield _row("bytes a positive", cells(lambda found: found["bytes a positive"]))
    model_of = part["model"]
    yield ""
    each = ", ".join(f"{value:.3f} {name}" for name, value in model_of["microseconds a positive"].items())
    yield from _header("ranks", RANKS, f"Model, not measured: minutes of an epoch of 1e9 rows; us a positive: {each}.")
    for link, hours in model_of["hours of an epoch"].items():
        yield _row(link, [f"{60 * value:.1f}" for value in hours[f"{10**9:.0e}"].values()])


def _links(part: dict[str, Any]) -> Iterator[str]:
    rates = [name for name, value in part.items() if isinstance(value, dict) and "stages" in value]
    yield from _header("between two namespaces, Uniform", rates, f"Links; {_when(part)}.")
    for stage in ("exchange", "waiting", "step"):
        yield _row(f"{stage}, ms", [part[rate]["stages"][stage] for rate in rates])
    yield _row("bytes a positive on the wire", [part[rate]["wire bytes a positive"] for rate in rates])


def _memory(part: dict[str, Any]) -> Iterator[str]:
    modes = [name for name, value in part.items() if isinstance(value, dict) and "1" in value]
    table = part["item table with moments, MB"]
    yield from _header("most memory of a rank, MB", modes, f"Item table with moments {table} MB; {_when(part)}.")
    for ranks in part[modes[0]]:
        yield _row(f"{ranks} ranks", [max(part[mode][ranks]["MB of each rank"]) for mode in modes])
