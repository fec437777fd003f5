"""Scores of looked-up rows without their copies: values and gradients as torch's, the same bits for any threads."""

import numba
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from vitalrank.kernels.cpu.training.lookups import row_gradients  # noqa: E402
from vitalrank.models.lookup_scores import LookupScores, ProductScores  # noqa: E402


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    queries, table = (torch.tensor(rng.normal(size=(rows, 5)), dtype=torch.float32) for rows in (7, 9))
    return queries, table, torch.tensor(rng.integers(0, 8, (7, 4)))  # row 8 is never named


@pytest.mark.parametrize("scorer", [LookupScores, ProductScores])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_values_and_gradients_are_those_of_torch(made, decay, scorer):
    queries, table, ids = made
    slopes = torch.randn(ids.shape, generator=torch.Generator().manual_seed(0))
    plain = [part.clone().requires_grad_() for part in (queries, table)]
    rows = plain[1][ids]
    scores = (rows * plain[0][:, None]).sum(-1)
    ((scores * slopes).sum() + decay / 2 * rows.square().sum()).backward()
    given = [part.clone().requires_grad_() for part in (queries, table)]
    found = scorer.apply(*given, ids, decay)
    torch.testing.assert_close(found, scores)
    (found * slopes).sum().backward()
    torch.testing.assert_close(given[0].grad, plain[0].grad)
    assert given[1].grad.is_sparse
    torch.testing.assert_close(given[1].grad.to_dense(), plain[1].grad)
    assert 8 not in given[1].grad._indices()


def test_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(1)
    slopes, queries = rng.normal(size=(3000, 40)).astype(np.float32), rng.normal(size=(3000, 64)).astype(np.float32)
    ids, table = rng.integers(0, 50, slopes.shape), np.zeros((50, 64), np.float32)
    before = numba.get_num_threads()
    found = []
    for threads in {1, numba.config.NUMBA_NUM_THREADS}:
        numba.set_num_threads(threads)
        found.append(row_gradients(slopes, queries, ids, table, 0.0))
    numba.set_num_threads(before)
    for rows, grads in found[1:]:
        np.testing.assert_array_equal(rows, found[0][0])
        np.testing.assert_array_equal(grads, found[0][1])
