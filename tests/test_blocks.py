"""Training in blocks of items: the law of its draws, its schedule, and the same bits for any number of ranks."""

from __future__ import annotations

import json

import numpy as np
import pytest

import block_cases
import rank_cases
import vitalrank as vr
from rank_processes import HERE, answers
from vitalrank.engines.mf_blocks_layout import BlockLayout, block_logs, random_blocks
from vitalrank.errors import SettingError
from vitalrank.samplers.rank_weights import weights_by_try

LOG = vr.datasets.synthetic(users=80, items=60, interactions=1500, seed=0)


def fit(sampler=None, log=LOG, **options):
    return vr.MF(dim=8).fit(
        log, sampler or vr.Uniform(), **{"epochs": 2, "lr": 0.05, "seed": 3, "progress": False, **options}
    )


def tables(model):
    return {name: array.tobytes() for name, array in model.tensors().items()}


# ------------------------------------------------------------------------------------------------------ the schedule


def test_no_two_shards_share_a_block_in_a_round_and_each_meets_all():
    layout = BlockLayout.of(LOG, 5, ranks=2, seed=0, epoch=1)
    rounds = [[layout.block_at(shard, turn) for shard in range(5)] for turn in range(5)]
    assert all(sorted(blocks) == list(range(5)) for blocks in rounds)
    assert all(sorted(met) == list(range(5)) for met in zip(*rounds, strict=True))


def test_blocks_part_the_items_evenly_and_anew_in_each_epoch():
    first, second = (random_blocks(103, 4, seed=0, epoch=epoch) for epoch in (1, 2))
    for blocks in (first, second):
        assert sorted(np.concatenate(blocks).tolist()) == list(range(103))
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert any(a.tolist() != b.tolist() for a, b in zip(first, second, strict=True))


def test_the_logs_of_the_blocks_hold_each_row_of_a_rank_once():
    layout = BlockLayout.of(LOG, 4, ranks=3, seed=0, epoch=1)
    found = []
    for rank in range(3):
        for log in block_logs(LOG, layout, rank):
            found += zip(log.user_ids[log.users].tolist(), log.item_ids[log.items].tolist(), strict=True)
    rows = zip(LOG.user_ids[LOG.users].tolist(), LOG.item_ids[LOG.items].tolist(), strict=True)
    assert sorted(found) == sorted(rows)


# ----------------------------------------------------------------------------------------------------------- the law


class Recorded(vr.Uniform):
    """Uniform, with the original ids of each positive and of its negatives written down."""

    pairs: list = []  # noqa: RUF012  (of the class: settings are frozen)

    def bind(self, train, seed=0):
        bound = super().bind(train, seed)
        draw = bound._draw

        def recorded(request):
            drawn = draw(request)
            self.pairs.extend(
                zip(train.item_ids[request.positives].tolist(), train.item_ids[drawn.ids[:, 0]].tolist(), strict=True)
            )
            return drawn

        bound._draw = recorded
        return bound


def test_negatives_come_from_the_block_of_their_positive():
    Recorded.pairs.clear()
    fit(Recorded(), blocks=4, epochs=1)
    block_of = BlockLayout.of(LOG, 4, ranks=1, seed=3, epoch=1).places[0]
    positives, negatives = (LOG.item_index(np.array(ids)) for ids in zip(*Recorded.pairs, strict=True))
    assert len(positives) == len(LOG)
    assert (block_of[positives] == block_of[negatives]).all()


@pytest.mark.parametrize("sampler", [vr.VINS(kappa=8), vr.LFMW(kappa=8)])
def test_ranks_are_estimated_among_the_items_of_all_blocks(sampler):
    log = block_logs(LOG, BlockLayout.of(LOG, 4, ranks=1, seed=0, epoch=1), 0)[0]
    bound = sampler.bind(log)
    bound.use_blocks(4)
    scores = np.zeros((log.n_items, 1), np.float32)
    users = np.arange(30)
    positives = np.zeros(30, int)
    scores[0] = 5.0  # nothing comes within the margin of the first item: all 8 tries
    found = bound(np.ones((30, 1), np.float32), scores, users, positives)
    expected = weights_by_try(sampler.weight, 4 * bound.Z, 8)[found.tries]
    assert found.tries.max() == 8
    assert found.weights[:, 0].tolist() == expected.tolist()
    assert found.weights[0, 0] != weights_by_try(sampler.weight, bound.Z, 8)[found.tries[0]]


def test_the_correction_for_the_proposal_knows_of_the_other_blocks():
    uniform = {"loss": "softmax", "negatives": 4, "optimizer": "sgd", "epochs": 1}
    plain, corrected = (fit(blocks=4, correct=correct, **uniform).history[0]["loss"] for correct in ("none", "logq"))
    # With 60 items and 4 negatives each term stands for some 15, and not for the 15 / 4 of a block.
    assert np.log1p(4) == pytest.approx(plain, rel=0.05)
    assert np.log1p(60 - LOG.user_degree[LOG.users].mean()) == pytest.approx(corrected, rel=0.05)


# ------------------------------------------------------------------------------------------------------------ a run


@pytest.mark.parametrize("sampler", [vr.VINS(), vr.Popularity()])
def test_one_block_has_the_bits_of_mode_exact(sampler):
    train, valid = LOG.split_last(0.2)
    one, exact = (fit(sampler, train, valid=valid, epochs=3, blocks=blocks) for blocks in (1, None))
    assert tables(one) == tables(exact)
    same = [{name: value for name, value in record.items() if name != "seconds"} for record in one.history]
    assert same == [{name: value for name, value in record.items() if name != "seconds"} for record in exact.history]


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_bits(threads):
    assert tables(fit(vr.VINS(), blocks=3, threads=threads)) == tables(fit(vr.VINS(), blocks=3))


def test_the_number_of_blocks_does():
    assert tables(fit(blocks=3)) != tables(fit(blocks=4))


def test_a_run_in_blocks_goes_on_with_the_same_bits(tmp_path):
    train, valid = LOG.split_last(0.2)
    options = {"blocks": 4, "valid": valid, "checkpoint": tmp_path / "run", "sampler": vr.VINS(), "log": train}
    whole = fit(vr.VINS(), train, valid=valid, blocks=4, epochs=4)
    fit(epochs=2, **options)
    assert tables(fit(epochs=4, resume=True, **options)) == tables(whole)
    with pytest.raises(SettingError, match="trained with blocks=4, not 2"):
        fit(epochs=5, resume=True, **{**options, "blocks": 2})


def test_callbacks_see_the_whole_model():
    seen = []
    model = fit(blocks=4, epochs=1, callbacks=[lambda record, model: seen.append(tables(model))])
    assert seen == [tables(model)]


def test_an_error_of_a_callback_leaves_the_trained_values():
    def fail(record, model):
        raise RuntimeError

    model = vr.MF(dim=8)
    with pytest.raises(RuntimeError):
        model.fit(LOG, vr.Uniform(), blocks=4, epochs=2, lr=0.05, seed=3, progress=False, callbacks=[fail])
    assert tables(model) == tables(fit(blocks=4, epochs=1))


def test_blocks_go_on_from_an_earlier_model():
    model = fit(blocks=2)
    more = LOG.extend(
        vr.Interactions.from_arrays(LOG.user_ids[:3], np.full(3, LOG.item_ids.max() + 1), times=LOG.times[-3:])
    )
    warm = vr.MF(dim=8).fit(more, vr.Uniform(), start=model, epochs=1, progress=False)
    assert warm.history.settings["blocks"] == 2
    assert warm.item_table.shape == (61, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "blocks"),
        ({"blocks": 2.5}, "blocks"),
        ({"blocks": 31}, r"blocks is 31, and the log has 60 items; a block needs two, so give at most 30\."),
        ({"blocks": 2, "sampler": vr.Mixed(vr.Known(LOG), "uni")}, "known negative"),
        ({"blocks": 2, "sampler": rank_cases.RowSampler()}, "RowSampler is none"),
        ({"blocks": 2, "device": "cuda"}, "CPUs|cuda"),
    ],
)
def test_what_does_not_go_with_blocks_is_refused(options, message):
    with pytest.raises(SettingError, match=message):
        fit(**options)


def test_other_models_refuse_blocks():
    pytest.importorskip("torch")
    with pytest.raises(SettingError, match=r"blocks is for matrix factorization \(MF\), not FPMC"):
        vr.FPMC(dim=4).fit(LOG, blocks=2, progress=False)


# ------------------------------------------------------------------------------------------------------- several ranks


@pytest.fixture(scope="module")
def alone():
    """What one process computes."""
    pytest.importorskip("torch.distributed")
    return json.loads(json.dumps(block_cases.run(block_cases.CASES)))


FEW = ("sampler vins", "five blocks", "valid")


def test_three_ranks_compute_the_bits_of_one_process(alone):
    for found in answers(3, HERE / "block_cases.py"):
        assert found == alone


@pytest.mark.parametrize("size", [2, 4])
def test_other_numbers_of_ranks_do_too(size, alone):
    for found in answers(size, HERE / "block_cases.py", *FEW):
        assert found == {case: alone[case] for case in FEW}


def test_ranks_may_change_between_resumes(tmp_path):
    pytest.importorskip("torch.distributed")
    script, folder = HERE / "block_cases.py", tmp_path / "run"
    answers(3, script, "--resume", folder, 2)
    answers(2, script, "--resume", folder, 3)
    assert block_cases.resumed(folder, 4) == block_cases.resumed(None, 4)
