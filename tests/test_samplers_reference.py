"""The kernels give what the plain definitions give: ids, tries, weights, log_q, violations, one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reference import REFERENCES
from reference.philox import Stream
from reference.proposing import proposal
from sampler_calls import assert_reproduced
from sampler_cases import make_world
from vitalrank.samplers import SAMPLERS, reject_sample
from vitalrank.samplers.proposals import reject_proposal

CASES = [
    ("uni", {}),
    ("pop", {"beta": 0.75}),
    ("pop", {"beta": 1.0}),
    ("aobpr", {"rho": 0.1}),
    ("aobpr", {"rho": 0.6}),
    ("aobpr", {"rho": 0.2, "exact": True}),
    ("cml", {"candidates": 5, "margin": 0.5}),
    ("pris", {"candidates": 4, "clusters": 0}),
    ("pris", {"candidates": 4, "clusters": 3}),
    ("pris", {"candidates": 4, "clusters": 50, "proposal": "uniform"}),
    ("sa", {"candidates": 6, "temperature": 0.5}),
    ("sa", {"candidates": 3, "temperature": 0.0}),
    ("irgan", {"temperature": 0.5}),
    ("dns", {"candidates": 5}),
    ("dns", {"candidates": 6, "top": 3}),
    ("dns", {"candidates": 4, "top": 4}),
    ("lfm-d", {"candidates": 6, "rho": 0.3}),
    ("dns", {"candidates": 6, "top": 3, "ceiling": 0.125}),
    ("dns", {"candidates": 5, "ceiling": "-50%"}),
    ("lfm-d", {"candidates": 6, "rho": 0.3, "ceiling": 0.0}),
    ("mixgcf", {"candidates": 6}),
    ("mixgcf", {"candidates": 3, "ceiling": 0.0}),
    ("ahns", {"candidates": 6}),
    ("ahns", {"candidates": 6, "alpha": 0.5, "beta": 0.5, "ceiling": 0.25}),
    ("ahns", {"candidates": 6, "alpha": 1.0, "beta": 0.25, "p": 0.0}),
    ("bns", {}),
    ("bns", {"candidates": 6, "sample": 0, "alpha": 0.5}),
    ("bns", {"candidates": 4, "sample": 9, "ceiling": 0.0}),
    ("mixed", {}),
    ("mixed", {"a": "pop", "b": "uni", "share": 0.2}),
    ("sa", {"candidates": 6, "temperature": 0.5, "ceiling": 0.0}),
    ("lfm-w", {"margin": 0.5, "kappa": 20, "ceiling": 0.0}),
    ("vins", {"beta": 0.75, "kappa": 12, "margin": 0.25, "ceiling": "-10%"}),
    ("vins", {"beta": 1.0, "kappa": 6, "margin": 0.75, "shots": None, "ceiling": -0.5}),
    ("lfm-w", {"margin": 0.5, "kappa": 20}),
    ("lfm-w", {"margin": -1.0, "kappa": 9, "weight": "log2"}),
    ("vins", {"beta": 0.75, "kappa": 12, "margin": 0.25}),
    ("vins", {"beta": 0.75, "kappa": 12, "margin": -0.75, "shots": None}),
    ("vins", {"beta": 1.0, "kappa": 20, "margin": -1.5, "shots": 2, "weight": "harmonic"}),
    ("vins", {"beta": 1.0, "kappa": 5, "margin": 0.0, "shots": None, "weight": "none"}),
    ("vins", {"beta": 0.0, "kappa": 1, "margin": 1.0, "shots": 1}),
    ("vins", {"beta": 1.0, "kappa": 30, "margin": -2.0, "shots": 20}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize(("step", "k", "pool"), [(0, 1, None), (7, 3, None), (2**31, 2, [1, 2, 3, 5, 8, 9, 10])])
def test_the_kernel_reproduces_the_definition(name, settings, step, k, pool):
    assert_reproduced(make_world(seed=step % 5), name, settings, step, k, pool)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_the_rescue_of_users_who_have_seen_nearly_all(name, settings):
    """Three of 90 items are unseen: many a search gives up redrawing and draws from the unseen items alone."""
    crowded = [[j for j in range(90) if j % 30 != u] for u in range(3)] + [list(range(0, 90, m)) for m in (2, 3, 7)]
    assert_reproduced(make_world(seed=1, rows=9, seen=crowded, n_items=90), name, settings, 3, 2, None)


@pytest.mark.parametrize("shots", [1, 2, 5, 16, 17, 40, None])
def test_reject_sampler_alone_is_algorithm_1(shots):
    """So light a catalogue for so heavy a positive that all shots are often rejected, and the heaviest tie."""
    weights = [64.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 4.0, 4.0]
    law = reject_proposal(np.array(weights, np.float32), np.arange(9), shots)
    positives = np.tile([0, 0, 1, 7], 300)
    draw, pool = reject_sample(law, positives, seed=6, step=2), range(9)
    drawings = {i: proposal(i, shots, weights, pool)[0] for i in set(positives.tolist())}
    assert draw.tolist() == [drawings[i](Stream(6, 2, row, index=0)) for row, i in enumerate(positives.tolist())]


def test_every_sampler_has_a_definition():
    assert REFERENCES.keys() == SAMPLERS.keys()
    assert {name for name, _ in CASES} == SAMPLERS.keys()


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_names_the_file_of_its_definition(name):
    file = f"tests/reference/{Path(REFERENCES[name].__code__.co_filename).name}"
    page = Path(__file__).parent.parent / f"docs/samplers/{name}.md"
    assert f"``{file}``" in (SAMPLERS[name].__doc__ or "")
    assert f"`{file}`" in page.read_text(encoding="utf-8")
