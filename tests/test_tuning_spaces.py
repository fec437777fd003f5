"""Search spaces: the registry covers every sampler, the paper's grid is the paper's, text becomes ranges and back."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitalrank.errors import SettingError
from vitalrank.models import is_trained, model_class, model_names
from vitalrank.samplers import SAMPLERS
from vitalrank.training import TrainConfig
from vitalrank.tuning.plans import plan_of
from vitalrank.tuning.spaces import SPACES, Choice, Range, including, named_space, parse_dimension

finite = st.floats(allow_nan=False, allow_infinity=False)


def test_the_papers_grid():
    grid = named_space("paper", "mf", "vins")
    assert grid == {
        "dim": Choice((16, 64, 128)),
        "reg": Choice((0.0005, 0.001, 0.005, 0.01)),
        "beta": Choice((0.25, 0.5, 0.75, 1.0)),
        "kappa": Choice((64, 128)),
        "margin": Choice((1.0, 2.0, 3.0, 4.0)),
    }
    assert named_space("paper", "mf", "lfm-d")["rho"] == Choice((0.01, 0.05, 0.1, 0.5))
    assert named_space("paper", "mf", "sa")["candidates"] == Choice((64, 128, 256))


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_value_of_a_named_space_is_allowed(name, sampler):
    plan = plan_of("mf", sampler, name, TrainConfig())  # makes a sampler and settings from both ends of every range
    own = {one.field for one in plan.parameters.values() if one.part == "sampler"}
    searchable = {field.name for field in fields(SAMPLERS[sampler])}
    assert own <= searchable
    assert own or name == "paper" or not searchable, "give the sampler ranges in the registry"
    assert {"dim", "reg"} <= plan.parameters.keys()


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("sampler", [None, *SAMPLERS])
@pytest.mark.parametrize("model", [name for name in model_names() if name != "TorchRecommender"])
def test_every_named_space_contains_the_defaults(name, sampler, model):
    if not is_trained(model_class(model)()):
        sampler = None
    plan = plan_of(model, sampler, name, TrainConfig())
    start = plan.start()
    assert start is not None
    settings = plan.settings(start)
    assert plan.model(settings).get_params() == model_class(model)().get_params()
    assert plan.training(settings) == TrainConfig().with_defaults(model_class(model)().defaults)
    if sampler is not None:
        assert plan.sampler(settings) == SAMPLERS[sampler]()


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-10, 10), st.booleans())
def test_a_space_is_widened_to_contain_a_value(one, other, value, log):
    low, high = sorted((abs(one) + 0.1, abs(one) + abs(other) + 0.2))
    wider = including(Range(low, high, log), value)
    assert value in wider
    assert low in wider or not log
    assert isinstance(wider, Range) == (not log or value > 0)


@given(st.tuples(finite, finite).filter(lambda ends: ends[0] < ends[1]))
def test_a_range_is_read_as_it_is_written(ends):
    assert parse_dimension(str(Range(*ends))) == Range(*ends)


@given(st.lists(finite | st.integers() | st.sampled_from(["log2", "harmonic"]), min_size=1, unique_by=repr))
def test_a_choice_is_read_as_it_is_written(values):
    assert parse_dimension(str(Choice(tuple(values)))) == Choice(tuple(values))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("1..0", "lower one first"),
        ("0..1:log", "above 0"),
        ("a..b", "not a range"),
        ("", "not a choice"),
        ("1,1", "twice"),
        ("0..inf", "not a range"),
    ],
)
def test_what_is_no_range(text, part):
    with pytest.raises(SettingError, match=part):
        parse_dimension(text)


def test_names_find_their_homes():
    written = {"dim": [8, 16], "margin": "1,2", "hinge_margin": "0.5..2", "kappa": "4..8", "lr": "1e-3..1e-2:log"}
    parameters = plan_of("mf", "vins", written, TrainConfig(loss="hinge")).parameters
    assert {name: (one.part, one.field) for name, one in parameters.items()} == {
        "dim": ("model", "dim"),
        "margin": ("sampler", "margin"),
        "hinge_margin": ("training", "margin"),
        "kappa": ("sampler", "kappa"),
        "lr": ("training", "lr"),
    }
    assert repr(parameters["margin"].dimension) == "Choice(values=(1.0, 2.0))"  # a real setting
    assert repr(parameters["kappa"].dimension) == "Range(low=4, high=8, log=False)"  # a whole one


@pytest.mark.parametrize(
    ("model", "sampler", "space", "part"),
    [
        ("mf", "vins", {"gamma": "0..1"}, "'gamma'"),
        ("mf", "vins", {"beta": "0..2"}, "beta is 2.0"),
        ("mf", "vins", {"dim": "0..8"}, "dim is 0"),
        ("mf", "vins", {"lr": "-1..1"}, "lr is -1.0"),
        ("mf", "vins", "narrow", "unknown space 'narrow'"),
        ("mf", "warp", "paper", "unknown sampler 'warp'"),
        ("svd", "vins", "paper", "unknown model 'svd'"),
        ("itemknn", "vins", "paper", "no sampler"),
        ("itemknn", None, {"beta": "0..1"}, "neighbours"),
        ("mf", "vins", {"hinge_margin": "1..2"}, r"no loss here \(bpr\) has a margin"),
        ("mf", "vins", {"hinge_margin": "1..2", "loss": "bpr,softmax"}, r"\(bpr, softmax\) has a margin"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(model, sampler, space, part):
    with pytest.raises(SettingError, match=part):
        plan_of(model, sampler, space, TrainConfig())
