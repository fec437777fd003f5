"""The methods compared: the paper's twelve, later ones, and the search space of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from vitalrank.config import TrainConfig
from vitalrank.models import model_class
from vitalrank.samplers import (
    AHNS,
    AOBPR,
    CML,
    DNS,
    IRGAN,
    LFMD,
    LFMW,
    PRIS,
    SA,
    VINS,
    InBatch,
    MixGCF,
    Popularity,
    Sampler,
    Uniform,
)
from vitalrank.tuning.plans import Plan, plan_of
from vitalrank.tuning.rounds import Rounds
from vitalrank.tuning.spaces import Choice, Dimension, Range, named_space

Space = Mapping[str, Dimension]

# The same for every sampler with MF. The library's L2 is per occurrence in a batch, so the paper's values are no guide.
STEPS: Space = {"reg": Range(0.01, 0.15, log=True), "lr": Range(0.002, 0.03, log=True)}  # falls to nothing
GAME_STEPS: Space = {"reg": Range(0.01, 0.15, log=True), "lr": Range(0.0015, 0.006, log=True)}
DEEP_STEPS: Space = {"reg": Range(0.005, 0.12, log=True), "lr": Range(0.001, 0.006, log=True)}
DEEP_TRAINING = {"batch": None}  # by the size of the log, as for MF
# L2 counts every occurrence: with k negatives a positive there are k times as many.
MANY: Space = {**STEPS, "reg": Range(0.0003, 0.05, log=True)}
_EXPENSIVE = 5.0  # times an epoch of Uniform
_DEEP = ("fpmc", "marank", "irgan")
# Of LFM-W and VINS alike.
MARGIN = Range(0.25, 2.0, log=True)
WEIGHT = Choice(("log2", "harmonic", "none"))
BUFFER = Range(32, 1024, log=True)
# Cosine scores: vectors of length 1 have no L2.
COSINE: Space = {"lr": STEPS["lr"], "temperature": Range(0.05, 0.5, log=True)}


def _own(sampler: str, **changes: Dimension) -> Space:
    """What is tuned of a sampler: the wide space of the library, with changes."""
    wide = named_space("wide", "mf", sampler)
    return {**STEPS, **{name: wide[name] for name in wide if name not in ("dim", *STEPS)}, **changes}


_LFM_W: Space = {**STEPS, "margin": MARGIN, "kappa": BUFFER}
_VINS: Space = {**_LFM_W, "beta": Range(0.25, 1.0)}
# With costlier models there are too few trials for the weight.
_DEEP_VINS: Space = {"beta": Choice((0.25, 0.5, 0.75, 1.0)), "kappa": Choice((64, 128)), "margin": MARGIN}


@dataclass(frozen=True)
class StudyMethod:
    """A model trained with a sampler, and what is searched for it."""

    name: str
    label: str
    sampler: Sampler | None
    space: Space
    model: str = "mf"
    training: Mapping[str, Any] = field(default_factory=dict)  # fixed
    model_settings: Mapping[str, Any] = field(default_factory=dict)  # fixed
    deep_space: Space | None = None  # with another model, where it is not the same
    beyond: bool = False  # not in the paper
    rank: int = 1  # lower ones are run first
    cost: float = 1.0  # of an epoch, roughly, to start the longest first

    @property
    def is_costly(self) -> bool:
        """Whether a study may want to try fewer settings of it."""
        return self.cost > _EXPENSIVE

    @property
    def is_deep(self) -> bool:
        """Whether its model is so expensive that it has its own number of trials, seeds and epochs."""
        return self.model in _DEEP

    @property
    def is_seeded(self) -> bool:
        """Whether two runs differ by their seed."""
        return self.sampler is not None or "seed" in self.model_parameters

    @property
    def model_parameters(self) -> frozenset[str]:
        """The names of its model's settings."""
        return frozenset(signature(model_class(self.model)).parameters)

    @property
    def plan(self) -> Plan:
        """What is searched, by where it belongs."""
        return plan_of(self.model, self.sampler, dict(self.space), TrainConfig(**self.training))

    def rounds(self, trials: int, seed: int = 0) -> Rounds:
        """The search over its space."""
        return Rounds(self.plan.space, trials, seed)

    def with_model(self, model: str) -> StudyMethod:
        """The same sampler with another model."""
        space = {**STEPS, **(self.space if self.deep_space is None else self.deep_space), **DEEP_STEPS}
        training = {**self.training, **DEEP_TRAINING}
        name, cost = f"{model} {self.name}", 20 * self.cost
        return replace(self, name=name, model=model, space=space, training=training, rank=3, cost=cost)


_ALL = (
    StudyMethod(
        "itemknn", "Item-KNN", None,
        {"neighbours": Choice((20, 50, 100, 200, 400)), "shrinkage": Choice((0.0, 10.0, 50.0, 200.0))},
        model="itemknn", model_settings={"similarity": "cosine"}, cost=0.1,
    ),
    StudyMethod("ease", "EASE", None, {"reg": Range(10.0, 10_000.0, log=True)}, model="ease", beyond=True),
    StudyMethod(
        "als", "ALS", None,
        {"reg": Range(0.1, 100.0, log=True), "alpha": Range(1.0, 100.0, log=True), "epochs": Choice((10, 15, 30))},
        model="als", beyond=True,
    ),
    StudyMethod("uni", "Uni", Uniform(), STEPS, rank=0),
    StudyMethod("pop", "POP", Popularity(), _own("pop")),
    StudyMethod("aobpr", "AOBPR", AOBPR(), _own("aobpr"), cost=2),
    StudyMethod(
        "cml", "CML", CML(), {"lr": Range(0.001, 0.02, log=True), "candidates": Choice((10, 20))}, model="cml",
        rank=2, cost=8,
    ),
    StudyMethod(
        "pris", "PRIS", PRIS(),
        _own("pris", **MANY, candidates=Choice((5, 10, 20)), proposal=Choice(("uniform", "popularity"))),
        rank=2, cost=6,
    ),
    StudyMethod("sa", "SA", SA(), _own("sa", **MANY, candidates=Choice((64, 128, 256))), rank=2, cost=8),
    StudyMethod("irgan", "IRGAN", IRGAN(), GAME_STEPS, model="irgan", training=DEEP_TRAINING, rank=4, cost=100),
    StudyMethod("dns", "DNS", DNS(), _own("dns", candidates=Range(4, 64, log=True)), rank=0, cost=2),
    StudyMethod("lfm-d", "LFM-D", LFMD(), _own("lfm-d", candidates=Range(8, 64, log=True)), cost=2),
    StudyMethod(
        "lfm-w", "LFM-W", LFMW(), {**_LFM_W, "weight": WEIGHT}, deep_space={"margin": MARGIN}, rank=0, cost=4,
    ),
    StudyMethod(
        "vins", "VINS", VINS(), {**_VINS, "weight": WEIGHT}, deep_space=_DEEP_VINS, rank=0, cost=3,
    ),
    StudyMethod(
        "dns-top", "DNS(M, N)", DNS(), _own("dns", candidates=Range(8, 64, log=True), top=Choice((2, 4, 8))),
        beyond=True, cost=2,
    ),
    StudyMethod(
        "ahns", "AHNS", AHNS(),
        {
            **STEPS, "candidates": Range(8, 64, log=True), "alpha": Range(0.1, 2.0, log=True),
            "beta": Range(0.02, 1.0, log=True),
        },
        beyond=True, cost=2,
    ),
    StudyMethod("mixgcf", "MixGCF", MixGCF(), {**STEPS, "candidates": Range(8, 64, log=True)}, beyond=True, cost=2),
    StudyMethod(
        "softmax", "sampled softmax", Uniform(), {**MANY, "negatives": Choice((64, 128, 256))},
        training={"loss": "softmax"}, beyond=True, rank=2, cost=10,
    ),
    StudyMethod(
        "softmax-pop", "softmax, negatives as in a batch", Popularity(beta=1.0),
        {**MANY, "negatives": Choice((64, 128, 256))},
        training={"loss": "softmax"}, beyond=True, rank=2, cost=10,
    ),
    StudyMethod(
        "ssm", "softmax, cosine and temperature", Uniform(), {**COSINE, "negatives": Choice((64, 256, 1024))},
        model_settings={"normalize": True}, training={"loss": "softmax"}, beyond=True, rank=2, cost=10,
    ),
    StudyMethod(
        "in-batch", "in-batch softmax, cosine, logQ", InBatch(), {**COSINE, "candidates": Choice((64, 256, 1024))},
        model_settings={"normalize": True}, training={"loss": "softmax", "correct": "logq"}, beyond=True, rank=2,
        cost=10,
    ),
    StudyMethod(
        "bsl", "BSL, cosine", Uniform(),
        {**COSINE, "bilateral": Range(0.5, 2.0, log=True), "negatives": Choice((64, 256, 1024))},
        model_settings={"normalize": True}, training={"loss": "bsl"}, beyond=True, rank=2, cost=10,
    ),
    StudyMethod(
        "vins-exact", "VINS, exact draws", VINS(shots=None), {**_VINS, "weight": WEIGHT}, beyond=True,
        cost=3,
    ),
    StudyMethod("vins-log2", "VINS, the paper's weight", VINS(), _VINS, beyond=True, cost=3),
    StudyMethod("lfm-w-harmonic", "LFM-W, WARP's weight", LFMW(), _LFM_W, beyond=True, cost=4),
)  # fmt: skip
MODEL_LABELS = {"mf": "MF", "fpmc": "FPMC", "marank": "MARank"}
METHODS: Mapping[str, StudyMethod] = {method.name: method for method in _ALL}
