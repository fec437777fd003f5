"""Losses against their formulas, on arrays and on tensors."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalrank import losses
from vitalrank.errors import SettingError

SCORES = st.floats(-30, 30)


def log_sigma(x):
    return np.log(1 / (1 + np.exp(-x)))


def plain(of_pair, of_positive=lambda p: 0.0):
    """A loss written out as loops."""

    def loss(pos, neg, weights):
        rows = []
        for p, negatives, ws in zip(pos, neg, weights, strict=True):
            rows.append(of_positive(p) + sum(w * of_pair(p, n) for n, w in zip(negatives, ws, strict=True)))
        return np.mean(rows)

    return loss


def plain_softmax(pos, neg, weights):
    rows = zip(pos, neg, weights, strict=True)
    return np.mean([-np.log(np.exp(p) / (np.exp(p) + sum(w * np.exp(n)))) for p, n, w in rows])


def plain_psl(pos, neg, weights):
    rows = zip(pos, neg, weights, strict=True)
    return np.mean([np.log(1 + sum(w * (1 + np.tanh((n - p) / 2)))) for p, n, w in rows])


def plain_bsl(pos, neg, weights):
    rows = zip(pos, neg, weights, strict=True)
    return np.mean([np.log(sum(w * np.exp(n))) - p if sum(w) > 0 else 0.0 for p, n, w in rows])


PLAIN = {
    "bpr": plain(lambda p, n: -log_sigma(p - n)),
    "hinge": plain(lambda p, n: max(0.0, 1.0 - (p - n))),
    "cross_entropy": plain(lambda p, n: -log_sigma(-n), lambda p: -log_sigma(p)),
    "gbce": plain(lambda p, n: -log_sigma(-n), lambda p: -log_sigma(p)),
    "softmax": plain_softmax,
    "bsl": plain_bsl,
    "psl": plain_psl,
}


@pytest.mark.parametrize("name", losses.LOSSES)
@given(data=st.data())
def test_a_loss_is_its_formula(name, data):
    pos = np.array(data.draw(st.lists(SCORES, min_size=3, max_size=3)))
    neg = np.array(data.draw(st.lists(SCORES, min_size=6, max_size=6))).reshape(3, 2)
    weights = np.array(data.draw(st.lists(st.floats(0, 2), min_size=6, max_size=6))).reshape(3, 2)
    expected = PLAIN[name](pos, neg, weights)
    assert losses.LOSSES[name].function(pos, neg, weights) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", losses.LOSSES)
def test_tensors_give_what_arrays_give(name):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    pos, neg, weights = rng.normal(size=4), rng.normal(size=(4, 3)), rng.uniform(size=(4, 3))
    function = losses.LOSSES[name].function
    tensor = function(*(torch.as_tensor(x) for x in (pos, neg, weights)))
    assert isinstance(tensor, torch.Tensor)
    assert float(tensor) == pytest.approx(function(pos, neg, weights), rel=1e-12)


def test_a_row_without_weight_does_not_pull():
    torch = pytest.importorskip("torch")
    neg = torch.zeros(2, 2, requires_grad=True)
    loss = losses.softmax(torch.zeros(2), neg, torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * np.log(2.0))
    assert neg.grad.tolist() == [[0.25, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("name", losses.LOSSES)
def test_a_column_of_positives_and_no_weights(name):
    function = losses.LOSSES[name].function
    pos, neg = np.array([0.3, -2.0]), np.array([[1.0], [0.5]])
    assert function(pos[:, None], neg) == function(pos, neg, np.ones((2, 1)))


@pytest.mark.parametrize("name", losses.LOSSES)
def test_large_scores_do_not_overflow(name):
    function = losses.LOSSES[name].function
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(function(np.array([-1e4]), np.array([[1e4]])))
        best = -2e4 if name == "bsl" else 0.0  # its positive is not in the softmax
        assert function(np.array([1e4]), np.array([[-1e4]])) == best


@pytest.mark.parametrize("name", losses.LOSSES)
def test_the_start_is_the_loss_of_equal_scores(name):
    loss = losses.LOSSES[name]
    start = loss.function(np.zeros(1), np.zeros((1, 1)))
    if loss.is_bilateral:  # it grows with the logarithm of the weight: a bound
        assert start <= loss.at_start(1.0, weight=1, positives=1)
        return
    assert start == pytest.approx(loss.at_start(1.0, weight=1, positives=1))


@pytest.mark.parametrize("name", losses.LOSSES)
def test_a_loss_is_of_points_or_of_pairs_as_it_says(name):
    """Without weight only a positive of its own costs; a loss of pairs is the sum over them."""
    loss, pos, neg = losses.LOSSES[name], np.array([0.3]), np.array([[0.1, -0.4]])
    without = loss.function(pos, neg, np.zeros((1, 2)))
    assert (without > 0) == loss.is_pointwise
    each = [float(loss.function(pos, neg[:, [j]])) for j in range(2)]
    assert (float(loss.function(pos, neg)) == pytest.approx(sum(each))) == loss.is_pairwise


@pytest.mark.parametrize("name", losses.LOSSES)
@pytest.mark.parametrize(
    ("pos", "neg", "words"),
    [
        ((3,), (3,), r"neg of \(3,\)"),
        ((3,), (1, 3), r"pos is of shape \(3,\)"),
        ((3,), (3, 1, 1), r"neg of \(3, 1, 1\)"),
    ],
)
def test_shapes_that_do_not_pair_up_are_refused(name, pos, neg, words):
    with pytest.raises(SettingError, match=words):
        losses.LOSSES[name].function(np.zeros(pos), np.zeros(neg))


@pytest.mark.parametrize("name", losses.LOSSES)
def test_weights_of_another_shape_are_refused(name):
    with pytest.raises(SettingError, match=r"weights are of shape \(3,\); give that of neg, \(3, 3\)"):
        losses.LOSSES[name].function(np.zeros(3), np.zeros((3, 3)), np.ones(3))


def test_the_margin_of_the_hinge():
    assert losses.hinge(np.array([1.0]), np.array([[0.0]]), margin=1.5) == 0.5


def test_an_unknown_loss_is_an_error():
    with pytest.raises(SettingError, match=r"'huber'.*bpr, hinge, cross_entropy"):
        losses.find_loss("huber")


def test_arrays_do_not_bring_torch():
    code = "import sys, numpy as np, vitalrank as vr; vr.losses.bpr(np.zeros(1), np.zeros((1, 1)));"
    code += "print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
