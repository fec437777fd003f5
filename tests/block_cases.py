"""Trainings in blocks whose bits must not depend on the number of ranks. As a script it is one rank of a group: it runs
the cases named on the command line, or goes on with a run, and prints what came out as JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import vitalrank as vr
from rank_cases import SAMPLERS, fitted, full_user, log, weighted

TINY = vr.Interactions.from_arrays([0, 0, 1, 1, 1, 1, 1], [0, 1, 0, 2, 3, 4, 5])  # buckets without positives


def blocked(sampler, train=None, **options):
    return fitted(log()[0] if train is None else train, sampler, **{"blocks": 4, **options})


def resumed(folder, epochs):
    """A run that goes on to so many epochs, with what is saved of it between epochs."""
    kept = {} if folder is None else {"checkpoint": folder, "resume": True, "checkpoint_epochs": 1}
    train, valid, _ = log()
    return blocked(vr.VINS(), train, valid=valid, epochs=epochs, **kept)


CASES = {
    **{f"sampler {name}": partial(blocked, sampler) for name, sampler in SAMPLERS.items()},
    "five blocks": partial(blocked, vr.VINS(), blocks=5, epochs=3),
    "valid": lambda: blocked(vr.VINS(), valid=log()[1], epochs=4, schedule="cosine", dim=20),
    "patience": lambda: blocked(vr.VINS(), valid=log()[1], epochs=30, lr=0.3, patience=2),
    "bias": partial(blocked, vr.DNS(), bias=True),
    "hinge sgd": partial(blocked, vr.Uniform(), loss="hinge", optimizer="sgd", negatives=3),
    "bsl adagrad": partial(blocked, vr.Uniform(), loss="bsl", optimizer="adagrad", negatives=3),
    "corrected": partial(blocked, vr.Popularity(), loss="softmax", correct="logq", negatives=4, temperature=0.5),
    "weights": lambda: blocked(vr.VINS(), weighted()),
    "a user who has seen all": lambda: blocked(vr.VINS(), full_user(), batch=4, blocks=3),
    "fewer users than blocks": partial(blocked, vr.VINS(), TINY, batch=2, blocks=3),
}


def run(names):
    """What each case gives."""
    return {name: CASES[name]() for name in names}


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(resumed(given[1], int(given[2])) if given[:1] == ["--resume"] else run(given or list(CASES))))
