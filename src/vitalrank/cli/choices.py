"""From what a person typed to settings: sampler options, output tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from vitalrank.errors import SettingError
from vitalrank.samplers import Sampler, find_sampler


def make_sampler(name: str, settings: Sequence[str]) -> Sampler:
    """A sampler from its name and ``NAME=VALUE`` settings."""
    made: Sampler = make(find_sampler(name), name, settings)
    return made


def make(kind: Callable[..., Any], name: str, settings: Sequence[str]) -> Any:
    """A sampler or a model from its class and ``NAME=VALUE`` settings.

    Examples
    --------
    >>> make(find_sampler("vins"), "vins", ["beta=0.5", "shots=none"])
    VINS(beta=0.5, kappa=64, margin=1.0, shots=None, weight='log2')
    >>> make(find_sampler("uni"), "uni", ["beta=1"])
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: uni has no setting 'beta'; it has none.
    """
    known = set(signature(kind).parameters)
    given: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SettingError(f"--set {setting!r} is not NAME=VALUE, such as beta=0.5.")
        if key not in known:
            raise SettingError(f"{name} has no setting {key!r}; it has {', '.join(sorted(known)) or 'none'}.")
        given[key] = _value(value)
    return kind(**given)


def split_settings(settings: Sequence[str], model: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The settings that the model takes, and the others, which are the sampler's.

    Examples
    --------
    >>> import vitalrank as vr
    >>> split_settings(["dim=8", "beta=0.5"], vr.MF)
    (['dim=8'], ['beta=0.5'])
    """
    known = signature(model).parameters
    own = [setting for setting in settings if setting.partition("=")[0] in known]
    return own, [setting for setting in settings if setting not in own]


def _value(text: str) -> Any:
    """A number, true, false, none, or the word itself."""
    lowered = text.strip().lower()
    if lowered == "none":
        return None
    try:
        return json.loads(lowered)
    except json.JSONDecodeError:
        return text.strip()


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output, for scripts."""
    print(json.dumps(value, default=str))
