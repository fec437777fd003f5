"""Torch models over several ranks: the same bits on each and every time, and those of one process but for rounding."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch.distributed")

import rank_torch_cases as cases
from rank_processes import HERE, answers

pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture(scope="module")
def three_ranks():
    """What each of three ranks says of every case."""
    return answers(3, HERE / "rank_torch_cases.py")


def test_all_ranks_end_with_the_same_values(three_ranks):
    assert three_ranks[1] == three_ranks[0]
    assert three_ranks[2] == three_ranks[0]


def test_the_same_number_of_ranks_gives_the_same_bits_again(three_ranks):
    for name, tables in three_ranks[0]["again"].items():
        assert tables == three_ranks[0][name]["tables"]


def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(three_ranks):
    assert three_ranks[0]["resumed"]["tables"] == three_ranks[0]["sasrec with dropout"]["tables"]


@pytest.mark.parametrize("name", cases.ROUNDED)
def test_ranks_differ_from_one_process_by_rounding(name, three_ranks):
    alone, shared = json.loads(json.dumps(cases.CASES[name]())), three_ranks[0][name]
    size = np.abs(alone["scores"]).max()
    np.testing.assert_allclose(shared["scores"], alone["scores"], atol=1e-4 * size)
    losses = [[record["loss"] for record in of["history"]] for of in (shared, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_loss_over_whole_batches_is_refused(three_ranks):
    assert "covariance=0 of CML" in three_ranks[0]["refused"]
