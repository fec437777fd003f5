"""From what was typed for ``compare`` to samplers, models and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

from vitalrank.cli.choices import make_sampler, model_kind, plain, settings_of
from vitalrank.cli.options import FIELDS
from vitalrank.comparing.planning import BASELINES
from vitalrank.errors import SettingError
from vitalrank.samplers import Sampler, find_sampler
from vitalrank.tuning.spaces import parse_value

_SHARED = ("seed", "metric", "threads", "device")  # by all methods
_USUAL = ",".join(BASELINES)
Makers = dict[str, Callable[[], Any]]
_TRAINING = {flag: field for flag, field in FIELDS.items() if flag not in _SHARED}


class Choices(NamedTuple):
    """Samplers, makers of models, training settings of single ones, and makers of baselines, by name."""

    samplers: dict[str, Sampler]
    makers: Makers
    training: dict[str, dict[str, Any]]
    baselines: Makers | None = None  # None: the usual ones at their defaults

    def table(self) -> dict[str, Any]:
        """Every setting of what is compared, as a config file holds it."""
        makers = {**self.makers, **(self.baselines or {})}
        each = [*self.samplers.items(), *((name, make()) for name, make in makers.items())]
        own = {f"{name}.{key}": value for name, part in each for key, value in plain(part).items()}
        flags = {field: flag for flag, field in _TRAINING.items()}
        return own | {
            f"{name}.{flags[key]}": value for name, part in self.training.items() for key, value in part.items()
        }


def choices(samplers: str, models: str, settings: Sequence[str], baselines: str | None = None) -> Choices:
    """Samplers and makers of models by name, each with the settings meant for it.

    Examples
    --------
    >>> chosen = choices("uni,vins", "mf", ["vins.beta=1", "uni.reg=0.01", "mf.dim=8", "ease.reg=100"])
    >>> chosen.samplers["vins"].beta, chosen.makers["mf"]().dim, chosen.training
    (1, 8, {'uni': {'reg': 0.01}})
    >>> [make() for make in chosen.baselines.values()][-1]
    EASE(reg=100.0, neighbours=None, dropout=0.0, decay=1.0)
    """
    kinds = {name: find_sampler(name) for name in names_of(samplers)}
    shapes = {name: model_kind(name) for name in names_of(models)}
    beside = {name: model_kind(name) for name in names_of(_USUAL if baselines is None else baselines) if name != "none"}
    by_name = _by_name(settings, dict.fromkeys([*kinds, *shapes, *beside]))
    alone = {name: by_name[name] for name in beside if name not in {*kinds, *shapes}}
    chosen = Choices({}, {}, {}, _made(beside, alone) if baselines is not None or any(alone.values()) else None)
    for name, given in by_name.items():
        if name in alone:
            continue
        parts = [kind for kind in (shapes.get(name), kinds.get(name)) if kind is not None]
        own = [_own(given, kind, parts[:place]) for place, kind in enumerate(parts)]  # cml and irgan are both
        training = _training(name, given, parts)
        if name in shapes:
            chosen.makers[name] = partial(shapes[name], **settings_of(shapes[name], name, own[0]))
            chosen.makers[name]()  # a wrong value is reported now
        if name in kinds:
            chosen.samplers[name] = make_sampler(name, own[-1])
        if training:
            chosen.training[name] = training
    return chosen


def names_of(text: str) -> list[str]:
    """Names between commas, each once.

    Examples
    --------
    >>> names_of("uni, vins,uni,")
    ['uni', 'vins']
    """
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _made(kinds: Mapping[str, Callable[..., Any]], given: Mapping[str, Mapping[str, str]]) -> Makers:
    """What makes each baseline, with the settings meant for it."""
    pairs = {name: [f"{key}={value}" for key, value in given.get(name, {}).items()] for name in kinds}
    return {name: partial(kind, **settings_of(kind, name, pairs[name])) for name, kind in kinds.items()}


def _own(given: Mapping[str, Any], kind: Callable[..., Any], earlier: Sequence[Callable[..., Any]]) -> list[str]:
    """What a class takes of the settings that no earlier one took, as ``NAME=VALUE``."""
    taken = {key for one in earlier for key in signature(one).parameters}
    return [f"{key}={value}" for key, value in given.items() if key in signature(kind).parameters and key not in taken]


def _training(name: str, given: Mapping[str, str], parts: Sequence[Callable[..., Any]]) -> dict[str, Any]:
    """What no class takes: training settings, by their fields."""
    own = {key for kind in parts for key in signature(kind).parameters}
    table = {}
    for key, value in given.items():
        if key in own:
            continue
        flag = key.replace("-", "_")
        if flag not in _TRAINING:
            known = ", ".join([*sorted(own), *_TRAINING])
            raise SettingError(f"{name} has no setting {key!r}; it has {known}.")
        table[_TRAINING[flag]] = parse_value(value)
    return table


def _by_name(settings: Sequence[str], names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The settings meant for each name; the last of a name counts."""
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for setting in settings:
        name, dot, rest = setting.partition(".")
        key, equals, value = rest.partition("=")
        if not dot or not equals or "=" in name:
            raise SettingError(f"--set {setting!r} is not NAME.SETTING=VALUE, such as vins.beta=0.5.")
        if name not in given:
            raise SettingError(f"--set {setting!r}: {name!r} is not compared; these are: {', '.join(given)}.")
        given[name][key.strip()] = value
    return given
