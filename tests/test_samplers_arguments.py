"""Bad settings, bindings and calls are refused in one line."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import vitalrank as vr
from sampler_calls import call
from sampler_cases import KEEPS_ALL, WORLD
from vitalrank.errors import SettingError
from vitalrank.samplers import SAMPLERS, find_sampler

SETTINGS = [
    ("pop", {"beta": -0.1}), ("pop", {"beta": 1.5}), ("pop", {"beta": "high"}), ("pop", {"beta": float("nan")}),
    ("aobpr", {"rho": 0.0}), ("aobpr", {"refresh": 0}),
    ("dns", {"candidates": 0}), ("dns", {"candidates": 2.5}), ("dns", {"candidates": True}),
    ("dns", {"candidates": 3, "top": 4}), ("dns", {"top": 0}),
    ("lfm-d", {"candidates": 0}), ("lfm-d", {"rho": -1.0}),
    ("lfm-w", {"kappa": 0}), ("lfm-w", {"margin": float("inf")}), ("lfm-w", {"weight": "linear"}),
    ("vins", {"beta": 2.0}), ("vins", {"kappa": 0}), ("vins", {"shots": 0}), ("vins", {"margin": "wide"}),
    ("sa", {"candidates": 0}), ("sa", {"temperature": -1.0}), ("sa", {"temperature": "hot"}),
    ("pris", {"clusters": -1}), ("pris", {"proposal": "magic"}), ("pris", {"refresh": 0}),
    ("aobpr", {"exact": True, "refresh": 5}), ("pris", {"clusters": 0, "refresh": 5}),
    ("cml", {"margin": 0.0}), ("cml", {"candidates": 0}), ("irgan", {"temperature": 0.0}),
    ("aobpr", {"exact": "no"}), ("pris", {"detach": "no"}), ("pris", {"detach": 0}), ("pris", {"clusters": ""}),
    ("pris", {"proposal": [1]}), ("vins", {"weight": [1]}), ("lfm-w", {"weight": 1}), ("lfm-w", {"margin": True}),
    ("ahns", {"candidates": 0}), ("ahns", {"beta": 0.0}), ("ahns", {"p": "low"}), ("mixed", {"share": 1.5}),
    ("bns", {"candidates": 0}), ("bns", {"sample": -1}), ("bns", {"alpha": -1.0}),
    ("mixed", {"a": "best"}), ("mixed", {"b": 3}), ("dns", {"ceiling": "high"}), ("lfm-d", {"ceiling": "x%"}),
    ("sa", {"ceiling": True}), ("vins", {"ceiling": -1.0}), ("lfm-w", {"ceiling": float("nan")}),
    ("pop", {"beta": True}), ("sa", {"temperature": None}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_bad_settings(name, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        SAMPLERS[name](**settings)


@pytest.mark.parametrize(
    "options",
    [
        {"seed": -1}, {"seed": 2**64}, {"seed": 1.5}, {"threads": 0}, {"threads": 1.5},
        {"allowed": [12]}, {"allowed": [-1]}, {"allowed": [0.5]}, {"allowed": np.ones(3, bool)},
    ],
    ids=str,
)  # fmt: skip
def test_bad_bindings(options):
    with pytest.raises(SettingError, match=next(iter(options))):
        vr.Uniform().bind(WORLD.log, **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"users": None}, "users"),
        ({"users": [0, 99]}, "users holds"),
        ({"users": [0, -1]}, "users holds"),
        ({"users": [0.0, 1.0]}, "users has"),
        ({"users": [[0, 1]]}, "users has"),
        ({"users": [0]}, "1 users but 2 positives"),
        ({"positives": [0, 12]}, "positives holds"),
        ({"queries": np.ones((3, 4))}, "queries has"),
        ({"queries": np.ones((2, 3))}, "wide"),
        ({"queries": None}, "queries"),
        ({"item_table": np.ones((5, 4))}, "item_table has"),
        ({"k": 0}, "k is 0"),
        ({"k": 1.5}, "k is 1.5"),
        ({"step": -1}, "step is -1"),
        ({"step": 0.5}, "step is 0.5"),
        ({"rows": [0]}, "rows"),
        ({"rows": [0, -1]}, "rows"),
        ({"score": lambda rows, ids: np.zeros(3)}, "score"),
    ],
    ids=lambda part: part if isinstance(part, str) else "-".join(part),
)
def test_bad_calls(change, told):
    good = {"queries": np.ones((2, 4)), "item_table": np.ones((12, 4)), "users": [0, 1], "positives": [0, 1]}
    with pytest.raises(SettingError, match=told):
        vr.DNS().bind(WORLD.log)(**(good | change))


@pytest.mark.parametrize("name", sorted(KEEPS_ALL))
def test_samplers_that_keep_their_candidates_refuse_k(name):
    with pytest.raises(SettingError, match="candidates"):
        call(name, "numpy", WORLD, k=2)


def test_settings_are_frozen_and_say_the_law():
    with pytest.raises(FrozenInstanceError):
        vr.VINS().beta = 0.5
    assert repr(vr.VINS(beta=0.25, kappa=9)).startswith("VINS(beta=0.25, kappa=9, margin=")
    assert "9 users, 12 of 12 items" in repr(vr.VINS().bind(WORLD.log))
    with pytest.raises(SettingError, match="unknown sampler"):
        find_sampler("best")
