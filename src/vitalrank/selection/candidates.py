"""What competes: models with and without a sampler, each with the space of its settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from vitalrank.comparing import Method
from vitalrank.comparing.planning import Models, Samplers, check, methods_of, named_models, named_samplers
from vitalrank.config import TrainConfig
from vitalrank.datasets import synthetic
from vitalrank.errors import VitalrankError
from vitalrank.evaluation import value_of
from vitalrank.interactions import Interactions
from vitalrank.models.trainable import TrainableModel
from vitalrank.selection.fitting import Decisions, fitting
from vitalrank.training import Trainer
from vitalrank.tuning.methods import Params
from vitalrank.tuning.plans import Plan, plan_of, space_of
from vitalrank.tuning.searching import Search
from vitalrank.tuning.spaces import Choice

MODELS: tuple[str, ...] = ("mostpopular", "itemknn", "ease", "als", "mf")
SAMPLERS: tuple[str, ...] = ("vins", "uni", "pop", "dns", "lfm-w")
TORCH_MODELS: tuple[str, ...] = ("lightgcn", "sasrec")  # where torch is installed and the time suffices
_FEW_SAMPLERS = ("vins", "uni")  # that these compete with
_DECAYS, _DROPOUTS = (0.98, 0.9, 0.8), (0.35,)  # tried early


@dataclass
class Candidate:
    """One that competes, and its search once that is open."""

    method: Method
    plan: Plan
    search: Search | None = None
    warm: bool = field(default=False)  # whether its kernels are compiled

    @property
    def label(self) -> str:
        """Its name."""
        return self.method.label

    @property
    def has_steps(self) -> bool:
        """Whether it is trained in epochs, so that a trial can be stopped."""
        return self.method.sampler is not None

    def compile(self) -> None:
        """Compile the kernels of its training and ranking on a toy log, so that no trial's time holds that."""
        if self.warm:
            return
        self.warm = True
        train, valid = synthetic(users=60, items=50, interactions=600, seed=0).split_last(0.2)
        config = self.plan.training(self.plan.settings(self.start))
        with suppress(VitalrankError):  # what fails here will fail, and be reported, where it matters
            model = self.method.make()
            if self.method.sampler is None:
                model.fit(train)
                value_of(model, valid, config.metric, config.threads)
            else:
                assert isinstance(model, TrainableModel)
                short = replace(config, epochs=1, schedule="constant")
                Trainer(short, progress=False).fit(model, train, self.method.sampler, valid)

    @property
    def start(self) -> Params:
        """The default settings."""
        return {name: one.default for name, one in self.plan.parameters.items()}

    def variants(self) -> list[Params]:
        """The default settings with one changed, such as the similarity: tried early where a fit is cheap."""
        if self.has_steps:
            return []
        tried = {"decay": _DECAYS, "dropout": _DROPOUTS}
        choices = {name: one for name, one in self.plan.space.items() if isinstance(one, Choice)}
        changed = [
            {**self.start, name: value}
            for name, one in choices.items()
            for value in tried.get(name, [word for word in one.values if isinstance(word, str)])
            if value in one
        ]
        # What fit does not read comes first: the model that was fitted last is used again.
        return sorted((params for params in changed if params != self.start), key=self.needs_fit)

    def needs_fit(self, params: Params) -> bool:
        """Whether settings differ from the default ones in what fit reads."""
        scoring = self.method.make().scoring_settings
        return any(params[name] != value for name, value in self.start.items() if name not in scoring)

    def rescored(self, params: Params) -> list[Params]:
        """Settings beside these that need no other fit."""
        scoring = self.method.make().scoring_settings
        beside: list[Params] = []
        for name, one in self.plan.space.items():
            if name in scoring and isinstance(one, Choice):
                place = one.values.index(params[name])
                beside += [
                    {**params, name: one.values[at]} for at in (place - 1, place + 1) if 0 <= at < len(one.values)
                ]
        return beside


def candidates_of(
    models: Models | None,
    samplers: Samplers,
    config: TrainConfig,
    fixed: Collection[str],
    train: Interactions,
    seconds: float,
    decided: Decisions | None = None,
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates, and by label why others are left out; what is ``decided`` stays, what is not is added there."""
    chosen = named_samplers(samplers)
    methods = methods_of(chosen, named_models(MODELS if models is None else models))
    if models is None and find_spec("torch") is not None:
        few = {name: chosen[name] for name in _FEW_SAMPLERS if name in chosen}
        methods += methods_of(few, named_models(TORCH_MODELS)) if few else []
    check(methods, 1.0, 1.0)
    left_out: dict[str, str] = {}
    found = []
    for method in methods:
        fits, why = fitting(method, config, train, seconds, {} if decided is None else decided)
        if why:
            left_out[method.label] = why
        if fits is not None:
            found.append(Candidate(fits, _plan(fits, config, fixed)))
    return sorted(found, key=lambda one: one.has_steps), left_out  # what is cheap is tried first


def _plan(method: Method, config: TrainConfig, fixed: Collection[str]) -> Plan:
    """The wide space of a candidate without what is fixed."""
    space = space_of("wide", method.make, method.sampler, config, fixed)
    searched = {name: one for name, one in space.items() if name not in fixed}
    return plan_of(method.make, method.sampler, searched, config, fixed)


def shared_hints(candidate: Candidate, others: Sequence[Candidate]) -> list[Params]:
    """The settings that a candidate shares with the best of the others, as that one has them; its own at defaults."""
    best: tuple[float, Params] | None = None
    for other in others:
        if other is candidate or not other.has_steps or other.search is None:
            continue
        for trial in other.search.whole:
            if trial.value is not None and (best is None or trial.value > best[0]):
                best = trial.value, trial.params
    if best is None or not candidate.has_steps:
        return []
    shared = {name: value for name, value in best[1].items() if name in _SHARED and name in candidate.plan.space}
    fits = all(value in candidate.plan.space[name] for name, value in shared.items())
    return [{**candidate.start, **shared}] if fits else []


_SHARED = ("dim", "reg", "lr")
