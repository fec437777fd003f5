"""Several ranks: the bits of one process, whatever their number."""

from __future__ import annotations

import json

import pytest

import rank_cases
from rank_processes import HERE, answers
from vitalrank import registry

pytest.importorskip("torch.distributed")


def as_json(found):
    return json.loads(json.dumps(found))


@pytest.fixture(scope="module")
def alone():
    """What one process computes."""
    return as_json(rank_cases.run(rank_cases.CASES))


FEW = ("sampler vins", "sampler aobpr", "sampler in-batch", "two users", "two items", "weights", "batch of one")


@pytest.fixture(scope="module")
def three_ranks():
    """What each of three ranks says of every case."""
    return answers(3, HERE / "rank_cases.py")


def test_the_cases_have_every_sampler():
    assert {name.split()[0] for name in rank_cases.SAMPLERS} | {"known"} >= set(registry.SAMPLERS)


@pytest.mark.parametrize("case", rank_cases.CASES)
def test_three_ranks_compute_the_bits_of_one_process(case, alone, three_ranks):
    for found in three_ranks:
        assert found[case] == alone[case]


def test_four_ranks_then_two_then_one_do_too(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKS_RUN", str(tmp_path / "run"))
    for size, stop, shared in ((4, 2, "1"), (2, 4, "0")):
        monkeypatch.setenv("VITALRANK_SHARED_MEMORY", shared)  # 0: messages are sent
        monkeypatch.setenv("RANKS_STOP", str(stop))
        for found in answers(size, HERE / "rank_cases.py", *FEW, "resumed"):
            assert len(found.pop("resumed")["history"]) == stop
            assert found == {case: alone[case] for case in FEW}
    monkeypatch.setenv("RANKS_STOP", "0")
    last = rank_cases.run(["resumed"])
    monkeypatch.setenv("RANKS_RUN", str(tmp_path / "never stopped"))
    assert last == rank_cases.run(["resumed"])
