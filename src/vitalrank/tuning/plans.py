"""What is searched: each hyperparameter, where it belongs, and the model, sampler and training of chosen values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any

from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.models import is_trained, model_class
from vitalrank.models.base import Recommender
from vitalrank.samplers import Sampler, find_sampler
from vitalrank.training.trainer import default_sampler
from vitalrank.tuning.naming import model_name, sampler_name
from vitalrank.tuning.results import Settings
from vitalrank.tuning.spaces import Choice, Dimension, Range, including, named_space, parse_dimension

# Training settings that a search may choose, by the names of their flags; "margin" alone is the sampler's, or that of
# both where a model's own sampler takes it from the training.
_TRAINING = {
    "lr": "lr", "reg": "reg", "batch": "batch", "negatives": "negatives", "epochs": "epochs", "loss": "loss",
    "optimizer": "optimizer", "schedule": "schedule", "hinge_margin": "margin", "temperature": "temperature",
    "calibration": "calibration", "bilateral": "bilateral",
}  # fmt: skip

DimensionLike = str | Sequence[Any] | Dimension
SpaceLike = Mapping[str, DimensionLike]
ModelFactory = Callable[..., Any]  # makes an unfitted model from settings


@dataclass(frozen=True)
class Hyperparameter:
    """One searched setting."""

    part: str  # "model", "sampler" or "training"
    field: str
    dimension: Dimension
    default: Any  # of the library, the model or the caller


@dataclass(frozen=True)
class Plan:
    """A model, a sampler and training settings, with the hyperparameters to search."""

    make: ModelFactory
    given_sampler: Sampler | None  # None: the model's own, or none
    config: TrainConfig
    parameters: Mapping[str, Hyperparameter]
    model_name: str
    sampler_name: str | None
    fixed: Collection[str] = ()  # training settings that hold whatever the model's own default

    def settings(self, chosen: Mapping[str, Any]) -> Settings:
        """Chosen values, by what they are of."""
        parts: dict[str, dict[str, Any]] = {"model": {}, "sampler": {}, "training": {}}
        for name, one in self.parameters.items():
            parts[one.part][one.field] = chosen[name]
        return Settings(**parts)

    def model(self, settings: Settings) -> Recommender:
        """An unfitted model."""
        made: Recommender = self.make(**settings.model)
        return made

    def training(self, settings: Settings) -> TrainConfig:
        """All training settings, with the model's own defaults where nobody said otherwise."""
        return replace(self.config.with_defaults(self.model(settings).defaults, self.fixed), **settings.training)

    def sampler(self, settings: Settings) -> Sampler | None:
        """The sampler, or None for a model without steps."""
        if self.sampler_name is None:
            return None
        base = self.given_sampler or default_sampler(self.model(settings), self.training(settings))
        return replace(base, **settings.sampler)

    @property
    def space(self) -> dict[str, Dimension]:
        """The dimensions by name."""
        return {name: one.dimension for name, one in self.parameters.items()}

    def start(self) -> dict[str, Any] | None:
        """The default settings, if they lie in the space."""
        inside = all(one.default in one.dimension for one in self.parameters.values())
        return {name: one.default for name, one in self.parameters.items()} if inside else None

    def check(self) -> None:
        """Refuse a value that the model, the sampler or the training does not take before anything runs."""
        first = {name: _ends(one.dimension)[0] for name, one in self.parameters.items()}
        for name, one in self.parameters.items():
            for value in _ends(one.dimension):
                settings = self.settings({**first, name: value})
                self.sampler(settings)
                self.training(settings)


def plan_of(
    model: str | ModelFactory,
    sampler: str | Sampler | None,
    space: str | SpaceLike,
    config: TrainConfig,
    fixed: Collection[str] = (),
) -> Plan:
    """The plan for what the caller of ``tune`` gave, checked."""
    parts = _parts_of(model, sampler, config, fixed)
    given: SpaceLike = parts.named_space(space) if isinstance(space, str) else space
    parameters = {name: parts.parameter(name, value, given) for name, value in given.items()}
    plan = Plan(parts.make, parts.given_sampler, config, parameters, *parts.names, fixed)
    plan.check()
    if parts.sampler is not None:
        _check_margin(parameters, parts.config)
    return plan


def space_of(
    name: str,
    model: str | ModelFactory,
    sampler: str | Sampler | None,
    config: TrainConfig,
    fixed: Collection[str] = (),
) -> dict[str, Dimension]:
    """The named space of a model and a sampler, widened to contain their default settings.

    Examples
    --------
    >>> space_of("paper", "mf", "dns", TrainConfig())["reg"]
    Choice(values=(0.0005, 0.001, 0.005, 0.01, 0.06))
    """
    return _parts_of(model, sampler, config, fixed).named_space(name)


def as_recorded(space: Mapping[str, Dimension], recorded: Mapping[str, str]) -> dict[str, Dimension]:
    """The space that a study recorded, if it is a part of this one: a later version may have widened a named space.

    Examples
    --------
    >>> space = {"reg": Choice((0.01, 0.06)), "dim": Choice((16, 64))}
    >>> as_recorded(space, {"reg": "0.01"}), as_recorded(space, {"reg": "0.2"}) == space
    ({'reg': Choice(values=(0.01,))}, True)
    """
    narrow = {name: parse_dimension(text) for name, text in recorded.items()}
    is_part = all(name in space and all(end in space[name] for end in _ends(one)) for name, one in narrow.items())
    return narrow if narrow and is_part else dict(space)


def study_name(model: str | ModelFactory, sampler: str | Sampler | None, config: TrainConfig) -> str:
    """The usual name of a study.

    Examples
    --------
    >>> study_name("mf", "dns", TrainConfig())
    'mf-dns'
    """
    return "-".join(filter(None, _parts_of(model, sampler, config, ()).names))


@dataclass(frozen=True)
class _Parts:
    """What is searched over, with defaults filled in."""

    make: ModelFactory
    given_sampler: Sampler | None
    sampler: Sampler | None  # the model's own where none is given; None for a model without training steps
    config: TrainConfig
    shares_margin: bool  # whether the sampler takes its margin from the training

    @property
    def names(self) -> tuple[str, str | None]:
        """The names of model and sampler in the registries."""
        return model_name(self.make), None if self.sampler is None else sampler_name(self.sampler)

    def named_space(self, name: str) -> dict[str, Dimension]:
        """The named space, with the defaults."""
        space = named_space(name, *self.names)
        return {key: including(one, self.parameter(key, one, space).default) for key, one in space.items()}

    def parameter(self, name: str, value: DimensionLike, space: Collection[str]) -> Hyperparameter:
        """Where a name belongs: the model first, then the sampler, then the training."""
        if name == "margin" and self.shares_margin and "hinge_margin" not in space:
            name = "hinge_margin"
        homes = self._homes()
        for part, known in homes.items():
            if name in known:
                field = _TRAINING[name] if part == "training" else name
                return Hyperparameter(part, field, _typed(parse_dimension(value), known[name]), known[name])
        every = ", ".join(sorted({key for known in homes.values() for key in known})) or "none"
        raise SettingError(f"nothing here has a setting {name!r} to search; these can be: {every}.")

    def _homes(self) -> dict[str, dict[str, Any]]:
        """The settings of each part with their defaults."""
        homes = {"model": {key: one.default for key, one in signature(self.make).parameters.items()}}
        if self.sampler is not None:
            homes["sampler"] = {field.name: getattr(self.sampler, field.name) for field in fields(self.sampler)}
            homes["training"] = {flag: getattr(self.config, field) for flag, field in _TRAINING.items()}
        return homes


def _parts_of(
    model: str | ModelFactory, sampler: str | Sampler | None, config: TrainConfig, fixed: Collection[str]
) -> _Parts:
    make: ModelFactory = model_class(model) if isinstance(model, str) else model
    base = make()
    filled = config.with_defaults(base.defaults, fixed)
    given = find_sampler(sampler)() if isinstance(sampler, str) else sampler
    if not is_trained(base):
        if given is not None:
            raise SettingError(f"{type(base).__name__} has no steps and no sampler; leave out the sampler.")
        return _Parts(make, None, None, filled, False)
    return _Parts(
        make, given, given or default_sampler(base, filled), filled, not given and _shares_margin(base, filled)
    )


def _check_margin(parameters: Mapping[str, Hyperparameter], config: TrainConfig) -> None:
    """Refuse to search or to set a margin that none of the losses has."""
    losses = _ends(parameters["loss"].dimension) if "loss" in parameters else (config.loss,)
    if any(replace(config, loss=loss).has_margin() for loss in losses):
        return
    if "hinge_margin" in parameters:
        names = ", ".join(losses)
        raise SettingError(f"hinge_margin cannot be searched: no loss here ({names}) has a margin; choose the hinge.")
    config.check_margin()


def _shares_margin(model: Recommender, config: TrainConfig) -> bool:
    """Whether the model's own sampler takes its margin from the training, as that of CML does."""
    other = replace(config, margin=2.0 * config.margin)
    return bool(default_sampler(model, config) != default_sampler(model, other))


def _typed(dimension: Dimension, default: object) -> Dimension:
    """The dimension in the type of the setting's default: 1 is 1.0 for a real setting."""
    if not isinstance(default, float):
        return dimension
    if isinstance(dimension, Range):
        return Range(float(dimension.low), float(dimension.high), dimension.log)
    return Choice(tuple(float(value) if type(value) is int else value for value in dimension.values))


def _ends(dimension: Dimension) -> tuple[Any, ...]:
    return dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high)
