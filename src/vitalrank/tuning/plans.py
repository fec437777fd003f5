"""What is to be searched: each knob, where it belongs, and how to make a trial's parts from chosen values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import signature
from typing import Any

from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.models import is_trained, model_class, model_names
from vitalrank.samplers import SAMPLERS, Sampler, find_sampler
from vitalrank.training.trainer import default_sampler
from vitalrank.tuning.results import Settings
from vitalrank.tuning.spaces import Choice, Dimension, Range, named_space, parse_dimension

# Training settings that a search may choose, by the names of their flags; "margin" alone is the sampler's, or that of
# both where a model's own sampler takes it from the training.
_TRAINING = {
    "lr": "lr", "reg": "reg", "batch": "batch", "negatives": "negatives", "epochs": "epochs", "loss": "loss",
    "optimizer": "optimizer", "schedule": "schedule", "hinge_margin": "margin",
}  # fmt: skip
_OWN = "own"  # a model that no registry knows

Written = Mapping[str, "str | Sequence[Any] | Dimension"]


@dataclass(frozen=True)
class Knob:
    """One searched setting."""

    part: str  # "model", "sampler" or "training"
    field: str
    dimension: Dimension
    default: Any  # as it is when nobody turns it


@dataclass(frozen=True)
class Plan:
    """A model, a sampler and training settings, with the knobs to turn."""

    make: Callable[..., Any]
    law: Sampler | None  # None: the model's own, or none
    config: TrainConfig
    knobs: Mapping[str, Knob]
    model_name: str
    sampler_name: str | None
    fixed: Collection[str] = ()  # training settings that hold whatever the model's own default

    def settings(self, chosen: Mapping[str, Any]) -> Settings:
        """Chosen values, by what they are of."""
        parts: dict[str, dict[str, Any]] = {"model": {}, "sampler": {}, "training": {}}
        for name, knob in self.knobs.items():
            parts[knob.part][knob.field] = chosen[name]
        return Settings(**parts)

    def model(self, settings: Settings) -> Any:
        """An unfitted model."""
        return self.make(**settings.model)

    def training(self, settings: Settings) -> TrainConfig:
        """All training settings, with the model's own defaults where nobody said otherwise."""
        return replace(self.config.with_defaults(self.model(settings).defaults, self.fixed), **settings.training)

    def sampler(self, settings: Settings) -> Sampler | None:
        """The sampler, or None for a model without steps."""
        if self.sampler_name is None:
            return None
        law = self.law or default_sampler(self.model(settings), self.training(settings))
        return replace(law, **settings.sampler)

    def start(self) -> dict[str, Any] | None:
        """The settings as they stand, if they lie in the space."""
        inside = all(knob.default in knob.dimension for knob in self.knobs.values())
        return {name: knob.default for name, knob in self.knobs.items()} if inside else None

    def check(self) -> None:
        """Refuse a value that the model, the sampler or the training does not take before anything runs."""
        first = {name: _ends(knob.dimension)[0] for name, knob in self.knobs.items()}
        for name, knob in self.knobs.items():
            for value in _ends(knob.dimension):
                settings = self.settings({**first, name: value})
                self.sampler(settings)
                self.training(settings)


def plan_of(
    model: str | Callable[..., Any],
    sampler: str | Sampler | None,
    space: str | Written,
    config: TrainConfig,
    fixed: Collection[str] = (),
) -> Plan:
    """The plan for what the caller of ``tune`` gave, checked."""
    make: Callable[..., Any] = model_class(model) if isinstance(model, str) else model
    base = make()
    taken = config.with_defaults(base.defaults, fixed)
    if isinstance(sampler, str):
        sampler = find_sampler(sampler)()
    if not is_trained(base):
        if sampler is not None:
            raise SettingError(f"{type(base).__name__} has no steps and no sampler; leave out the sampler.")
        law = None
    else:
        law = sampler or default_sampler(base, taken)
    names = _model_name(make), None if law is None else sampler_name(law)
    written: Written = named_space(space, *names) if isinstance(space, str) else space
    both = "hinge_margin" not in written and sampler is None and law is not None and _shares_margin(base, taken)
    homes = {name: "hinge_margin" if both and name == "margin" else name for name in written}
    knobs = {name: _knob(homes[name], value, make, law, taken) for name, value in written.items()}
    plan = Plan(make, sampler, config, knobs, *names, fixed)
    plan.check()
    if law is not None:
        _check_margin(knobs, taken)
    return plan


def _check_margin(knobs: Mapping[str, Knob], config: TrainConfig) -> None:
    """Refuse to search or to set a margin that none of the losses has."""
    losses = _ends(knobs["loss"].dimension) if "loss" in knobs else (config.loss,)
    if any(replace(config, loss=loss).has_margin() for loss in losses):
        return
    if "hinge_margin" in knobs:
        names = ", ".join(losses)
        raise SettingError(f"hinge_margin cannot be searched: no loss here ({names}) has a margin; choose the hinge.")
    config.check_margin()


def _knob(name: str, value: Any, make: Callable[..., Any], law: Sampler | None, config: TrainConfig) -> Knob:
    """Where a name belongs: the model first, then the sampler, then the training."""
    homes: dict[str, dict[str, Any]] = {
        "model": {key: parameter.default for key, parameter in signature(make).parameters.items()},
        "sampler": {} if law is None else {field.name: getattr(law, field.name) for field in fields(law)},
        "training": {} if law is None else {flag: getattr(config, field) for flag, field in _TRAINING.items()},
    }
    for part, known in homes.items():
        if name in known:
            field = _TRAINING[name] if part == "training" else name
            return Knob(part, field, _typed(parse_dimension(value), known[name]), known[name])
    every = sorted({key for known in homes.values() for key in known})
    raise SettingError(f"nothing here has a setting {name!r} to search; these can be: {', '.join(every) or 'none'}.")


def _shares_margin(model: Any, config: TrainConfig) -> bool:
    """Whether the model's own sampler takes its margin from the training, as that of CML does."""
    other = replace(config, margin=2.0 * config.margin)
    return bool(default_sampler(model, config) != default_sampler(model, other))


def _typed(dimension: Dimension, default: Any) -> Dimension:
    """The dimension in the type of the setting's default: 1 is 1.0 for a real setting."""
    if not isinstance(default, float):
        return dimension
    if isinstance(dimension, Range):
        return Range(float(dimension.low), float(dimension.high), dimension.log)
    return Choice(tuple(float(value) if type(value) is int else value for value in dimension.values))


def _ends(dimension: Dimension) -> tuple[Any, ...]:
    return dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)


def _model_name(make: Callable[..., Any]) -> str:
    inner = make.func if isinstance(make, partial) else make
    name = getattr(inner, "__name__", "").lower()
    return name if name in {known.lower() for known in model_names()} else _OWN


def sampler_name(law: Sampler) -> str:
    """The name of a sampler in the registry.

    Examples
    --------
    >>> import vitalrank as vr
    >>> sampler_name(vr.VINS())
    'vins'
    """
    return next((name for name, kind in SAMPLERS.items() if type(law) is kind), _OWN)
