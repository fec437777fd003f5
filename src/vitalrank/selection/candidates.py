"""What competes: models with and without a sampler, each with the space of its settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from vitalrank._util.memory import available_memory
from vitalrank.comparing import Method
from vitalrank.comparing.planning import Models, Samplers, check, methods_of, named_models, named_samplers
from vitalrank.config import TrainConfig
from vitalrank.datasets import synthetic
from vitalrank.errors import VitalrankError
from vitalrank.evaluation import value_of
from vitalrank.interactions import Interactions
from vitalrank.models.ease import EASE
from vitalrank.training import Trainer
from vitalrank.tuning.methods import Params
from vitalrank.tuning.plans import Plan, plan_of, space_of
from vitalrank.tuning.searching import Search
from vitalrank.tuning.spaces import Choice

MODELS: tuple[str, ...] = ("mostpopular", "itemknn", "ease", "als", "mf")
SAMPLERS: tuple[str, ...] = ("vins", "uni", "pop", "dns", "lfm-w")
_EASE_SHARE = 0.1  # of the budget that one fit of EASE may take


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
                short = replace(config, epochs=1, schedule="constant")
                Trainer(short, progress=False).fit(model, train, self.method.sampler, valid)

    @property
    def start(self) -> Params:
        """The default settings."""
        return {name: one.default for name, one in self.plan.parameters.items()}

    def variants(self) -> list[Params]:
        """The default settings with one word changed, such as the similarity: tried early where a fit is cheap."""
        if self.has_steps:
            return []
        words = {name: one for name, one in self.plan.space.items() if isinstance(one, Choice)}
        return [
            {**self.start, name: value}
            for name, one in words.items()
            for value in one.values
            if isinstance(value, str) and value != self.start[name]
        ]


def candidates_of(
    models: Models,
    samplers: Samplers,
    config: TrainConfig,
    fixed: Collection[str],
    train: Interactions,
    seconds: float,
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates, and by label why others are left out."""
    methods = methods_of(named_samplers(samplers), named_models(models))
    check(methods, 1.0, 1.0)
    left_out: dict[str, str] = {}
    found = []
    for method in methods:
        why = _too_much(method.make(), train, seconds)
        if why:
            left_out[method.label] = why
        else:
            found.append(Candidate(method, _plan(method, config, fixed)))
    return found, left_out


def _plan(method: Method, config: TrainConfig, fixed: Collection[str]) -> Plan:
    """The wide space of a candidate without what is fixed."""
    space = space_of("wide", method.make, method.sampler, config, fixed)
    searched = {name: one for name, one in space.items() if name not in fixed}
    return plan_of(method.make, method.sampler, searched, config, fixed)


def _too_much(model: Any, train: Interactions, seconds: float) -> str | None:
    """Why a model does not fit the machine or the budget."""
    if not isinstance(model, EASE):
        return None
    cost, free = model.estimate(train), available_memory()
    if free is not None and cost.bytes > 0.8 * free:
        return f"needs about {cost.bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    if cost.seconds > _EASE_SHARE * seconds:
        return f"a single fit takes about {cost.seconds:.0f} s"
    return None


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
