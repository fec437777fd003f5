"""Arrays, shapes, scorers and settings of any kind: a sampler draws unseen items or says what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np

import vitalrank as vr
from vitalrank.samplers import SAMPLERS, find_sampler

ODD: list[Any] = [None, -1, 0, 1, 2**40, -(2**70), 0.5, float("nan"), "abc", "", [], {}, [[1, 2], [3]], object(), True]
FLOATS = [float("nan"), float("inf"), -float("inf"), 3e38, 1e300, -1e300, 1e-320, 0.0, -0.0]
KINDS = [np.float16, np.float32, np.float64, np.int64, np.bool_, np.complex128, np.uint8, object]
SETTINGS = [
    0,
    1,
    2,
    3,
    64,
    -1,
    10**9,
    0.0,
    0.5,
    1.0,
    1e-300,
    1e300,
    float("nan"),
    "log2",
    "none",
    None,
    True,
    "uniform",
]
SCORERS = ["none", "none", "dot", "nan", "short", "huge", "text", "late", "integers", "list", "raises", "not callable"]


@cache
def train() -> Any:
    return vr.datasets.synthetic(users=30, items=25, interactions=300, seed=0)


@cache
def seen() -> set[tuple[int, int]]:
    return set(zip(train().users.tolist(), train().items.tolist(), strict=True))


def case(rng: Random) -> None:
    log = train()
    settings = settings_of(rng, find_sampler(rng.choice(sorted(SAMPLERS))))
    bound = settings.bind(log, **bind_options(rng))
    for _ in range(2):
        rows = rng.choice([0, 1, 7, 64])
        pick = np.random.default_rng(rng.randrange(2**32))
        places = pick.integers(0, len(log), rows)
        users, positives = log.users[places], log.items[places]
        width = rng.choice([0, 1, 4, 4, 4, 33])
        queries, table = pick.normal(size=(rows, width)), pick.normal(size=(log.n_items, width))
        given = {"queries": queries, "item_table": table, "users": users, "positives": positives}
        for name in rng.sample(sorted(given), rng.choice([0, 0, 1, 1, 2])):
            given[name] = damaged(rng, given[name])
        score = scorer(rng, queries, table)
        options = {"k": rng.choice([1, 1, 1, 2, 5, 300, *ODD]), "step": rng.choice([None, 0, 2**32 - 1, *ODD])}
        if rng.random() < 0.1:
            options["rows"] = damaged(rng, np.arange(rows))
        draw = bound(**given, **options, **({} if score is None else {"score": score}))
        check(log, given["users"], draw)


def settings_of(rng: Random, kind: Any) -> Any:
    names = [field.name for field in dataclasses.fields(kind) if rng.random() < 0.15]
    return kind(**{name: rng.choice(SETTINGS) for name in names})


def bind_options(rng: Random) -> dict[str, Any]:
    options: dict[str, Any] = {"threads": 2, "seed": rng.randrange(2**64)}
    if rng.random() < 0.2:
        options["allowed"] = rng.choice(
            [[0, 1, 2], [], [24], [25], [-1], [0.5], "abc", np.ones(25, bool), [True], ODD[0]]
        )
    if rng.random() < 0.1:
        options["seed"] = rng.choice(ODD)
    if rng.random() < 0.1:
        options["threads"] = rng.choice([1, 3, 0, *ODD[:8]])
    options["count"] = rng.random() < 0.3
    return options


def damaged(rng: Random, array: Any) -> Any:
    choice = rng.randrange(8)
    array = array.copy()
    if choice == 0:
        return rng.choice(ODD)
    if choice == 1 and array.size and array.dtype.kind == "f":
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(FLOATS)
    elif choice == 2 and array.size and array.dtype.kind != "f":
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice([-1, 25, 30, 2**31 - 1, -(2**31)])
    elif choice == 3:
        kind = rng.choice(KINDS)
        with np.errstate(all="ignore"):
            array = array.astype(kind)
    elif choice == 4:
        array = array[: rng.randrange(len(array) + 1)]
    elif choice == 5:
        array = array.reshape(-1, 1) if rng.random() < 0.5 else array[None]
    elif choice == 6:
        array = array[::-1] if rng.random() < 0.5 else np.asfortranarray(array)
    else:
        with np.errstate(all="ignore"):
            array = array * rng.choice([0, 1, 1e200]) if array.dtype.kind == "f" else array
    return array


def scorer(rng: Random, queries: Any, table: Any) -> Callable[..., Any] | Any:
    kind = rng.choice(SCORERS)

    def score(rows: Any, ids: Any) -> Any:
        scores = np.einsum("rd,rcd->rc", queries[rows], table[ids])
        if kind == "raises":
            raise vr.VitalrankError("the caller's own")
        return {
            "nan": scores * np.nan, "short": scores[:, :-1], "huge": scores * 1e200, "text": "scores", "late": None,
            "integers": scores.astype(np.int64), "list": scores.tolist(),
        }.get(kind, scores)  # fmt: skip

    return {"none": None, "not callable": 5}.get(kind, score)


def check(log: Any, users: Any, draw: Any) -> None:
    ids, weights = np.asarray(draw.ids), np.asarray(draw.weights)
    who = np.asarray(users).reshape(-1)
    assert ids.shape == weights.shape
    assert len(ids) == len(who)
    assert ((ids >= -1) & (ids < log.n_items)).all()
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert not any((int(user), int(item)) in seen() for user, row in zip(who, ids, strict=True) for item in row)
