"""The search in rounds: points inside the space, spread, then nearer to the best, then bred from the best few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vitalrank.paper.methods import METHODS
from vitalrank.tuning.points import spread_points
from vitalrank.tuning.rounds import Rounds, RoundsState, TrialResult
from vitalrank.tuning.spaces import Choice, Range


@pytest.mark.parametrize("trials", [8, 60, 100])
@pytest.mark.parametrize("name", METHODS)
def test_settings_lie_in_the_space_and_make_a_sampler(name, trials):
    method = METHODS[name]
    search = method.rounds(trials)
    points = []
    for number in range(len(search)):
        points += search.points(number, [(point, float(turn)) for turn, point in enumerate(points)])
    assert len(points) == trials
    for point in points:
        flat = search.values(point)
        settings = method.plan.settings(flat)
        assert flat.keys() == method.space.keys()
        for key, value in flat.items():
            dimension = method.space[key]
            if isinstance(dimension, Choice):
                assert value in dimension.values
            else:
                assert 0.99 * dimension.low <= value <= 1.01 * dimension.high
        if method.sampler is not None:
            replace(method.sampler, **settings.sampler)


def test_later_rounds_look_nearer_to_the_best():
    search = METHODS["vins"].rounds(40)
    best = np.array([0.9, 0.5, 0.1, 0.5, 0.3, 0.7])
    tried = [(1.0 - best, 0.1), (best, 0.2)]
    for number, share in ((0, 1.0), (1, 0.5), (2, 0.25)):
        points = np.array(search.points(number, tried))
        assert 0.0 <= points.min() <= points.max() <= 1.0
        assert (np.ptp(points, axis=0) <= share).all()
        assert (np.ptp(points, axis=0) >= 0.6 * share).all()
        assert number == 0 or (abs(points - best) <= share).all()
    assert len(search) == 3  # too few trials to breed from
    lost = np.array(search.points(1))
    assert (np.ptp(lost, axis=0) > 0.6).all()  # nothing worked: look everywhere again


def test_the_last_rounds_breed_from_the_best_few():
    """Children of eight good trials on a line lie near that line; none of a hundred poor ones has a part in them."""
    search = METHODS["vins"].rounds(90)
    assert len(search) == 5
    words = {name: place for place, name in enumerate(("reg", "lr", "margin", "kappa", "beta", "weight"))}
    ways = np.linspace(0.3, 0.5, 8)
    good = [np.array([way, 1 - way, 0.5, 0.5, 0.5, 0.9]) for way in ways]
    poor = list(np.random.default_rng(0).uniform(0.7, 1.0, (100, 6)))
    tried = [(point, 0.2) for point in good] + [(point, 0.1) for point in poor]
    children = np.array(search.points(3, tried))
    assert len(children) == 15
    assert (children[:, words["weight"]] == 0.9).all()  # words are inherited
    assert abs(children[:, 0] + children[:, 1] - 1.0).max() < 0.3
    assert 0.1 < children[:, 0].min() < children[:, 0].max() < 0.7
    assert not np.array_equal(children, np.array(search.points(4, tried)))
    assert np.array_equal(children, np.array(search.points(3, tried)))


def test_half_of_many_trials_ask_again_what_the_first_half_took_from_its_best():
    search, half = METHODS["vins"].rounds(128), METHODS["vins"].rounds(64)
    assert len(search) == len(half) + 3
    best = np.array([0.41, 0.61, 0.51, 0.31, 0.71, 0.91])
    tried = [(1.0 - best, 0.1), (best, 0.2)]
    for number in range(len(half)):
        assert np.array_equal(search.points(number, tried), half.points(number, tried))
    points = np.array(search.points(len(half), tried))
    assert len(points) == 24
    assert ((points != best).sum(axis=1) == 1).all()  # one thing at a time
    weights = {search.values(point)["weight"] for point in points}
    assert weights == {"log2", "harmonic", "none"}
    for own in (2, 3, 4):  # margin, kappa, beta: from one end of the range to the other
        moved = points[points[:, own] != best[own], own]
        assert len(moved) >= 7  # of 22 on the three lines
        assert moved.min() < 0.1
        assert moved.max() > 0.9
    assert (points[:, :2] == best[:2]).all()  # what all share is left to the rounds that breed
    alone = np.array(METHODS["uni"].rounds(128).points(len(half), [(best[:2], 0.2)]))
    assert (alone != best[:2]).any(axis=0).all()  # who has nothing of its own moves that


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_points_are_spread_evenly(dimensions):
    points = spread_points(64, dimensions, seed=3)
    for column in points.T:
        counts = np.histogram(column, bins=4, range=(0, 1))[0]
        assert counts.min() >= 11  # of 16
    assert not np.array_equal(points, spread_points(64, dimensions, seed=4))


def test_every_sampler_tries_the_same_steps():
    """The same pairs of learning rate and L2, in the same order, before the searches go their own ways."""
    names = [name for name, one in METHODS.items() if {"lr", "reg"} <= one.space.keys() and one.model == "mf"]
    searches = {name: METHODS[name].rounds(10) for name in names}
    tried = {name: [one.values(point) for point in one.points(0)] for name, one in searches.items()}
    for name in names:
        assert [found["lr"] for found in tried[name]] == [found["lr"] for found in tried["uni"]]
        if METHODS[name].space["reg"] == METHODS["uni"].space["reg"]:
            assert [found["reg"] for found in tried[name]] == [found["reg"] for found in tried["uni"]]


def test_the_searchers_share_all_but_beta():
    ours, theirs = METHODS["vins"].space, METHODS["lfm-w"].space
    assert {name: ours[name] for name in ("margin", "kappa", "weight", "lr", "reg")} == dict(theirs)
    assert ours.keys() - theirs.keys() == {"beta"}


def test_a_search_state_knows_a_round_once_all_before_it_are_finished():
    rounds = Rounds({"beta": Range(0.0, 1.0)}, trials=8)
    results: dict[float, TrialResult] = {}
    state = RoundsState(rounds, lambda values: results.get(values["beta"]), start={"beta": 0.5})
    sizes = []
    while not state.is_complete:
        state.advance()
        pending = [values["beta"] for values in state.candidates if values["beta"] not in results]
        sizes.append(len(pending))
        for beta in pending[1:]:
            results[beta] = TrialResult(-abs(beta - 0.8))
        state.advance()  # one result is missing: nothing new
        assert len(state.candidates) == sum(sizes)
        results[pending[0]] = TrialResult(None)  # it diverged
    assert sizes == [1, 4, 2, 2]
    best = max(results, key=lambda beta: results[beta].value or -1.0)
    assert abs(best - 0.8) < 0.15
