"""Several ranks: the bits of one process, whatever their number."""

from __future__ import annotations

import json

import pytest

import rank_cases
from rank_processes import HERE, answers

pytest.importorskip("torch.distributed")


@pytest.fixture(scope="module")
def alone():
    """What one process computes."""
    return rank_cases.run(rank_cases.CASES)


FEW = ("sampler vins", "sampler aobpr", "sampler in-batch", "two users", "valid", "weights", "batch of one")


@pytest.fixture(scope="module")
def three_ranks():
    """What each of three ranks says of every case."""
    return answers(3, HERE / "rank_cases.py")


@pytest.mark.parametrize("case", rank_cases.CASES)
def test_three_ranks_compute_the_bits_of_one_process(case, alone, three_ranks):
    for found in three_ranks:
        assert found[case] == json.loads(json.dumps(alone[case]))


@pytest.mark.parametrize("size", [2, 4])
def test_other_numbers_of_ranks_do_too(size, alone):
    for found in answers(size, HERE / "rank_cases.py", *FEW):
        assert found == json.loads(json.dumps({case: alone[case] for case in FEW}))
