"""From what a person typed to settings: sampler options, parts of the log, files to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from vitalrank import registry
from vitalrank.cli.config import to_toml
from vitalrank.cli.options import FIELDS, MODELS, STEPS, format_of
from vitalrank.cli.taking import inputs_of
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.models import model_class
from vitalrank.samplers import Sampler, find_sampler
from vitalrank.training.trainer import default_sampler
from vitalrank.tuning.naming import sampler_name
from vitalrank.tuning.spaces import parse_value, text_of

if TYPE_CHECKING:
    from vitalrank.interactions import Interactions
    from vitalrank.models.base import Recommender


def model_kind(name: str) -> Callable[..., Any]:
    """The class of a model that words alone can make.

    Examples
    --------
    >>> model_kind("itemknn")(neighbours=5)
    ItemKNN(neighbours=5, shrinkage=0.0, similarity='bm25', k1=1.2, b=0.3, neighbours_of='predicted', decay=1.0)
    """
    entry = registry.MODELS.get(name.lower())
    choice = f"choose one of {', '.join(MODELS)}."
    if entry is None:
        raise SettingError(f"unknown model {name!r}; {choice}")
    if entry.needs_modules:
        raise SettingError(f"{entry.class_name} takes modules of your own, in Python; {choice}")
    return model_class(name)


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
    """
    return kind(**settings_of(kind, name, settings))


def settings_of(kind: Callable[..., Any], name: str, settings: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` settings of a class by name; the last of a name counts.

    Examples
    --------
    >>> settings_of(find_sampler("uni"), "uni", ["beta=1"])
    Traceback (most recent call last):
    ...
    vitalrank.errors.SettingError: uni has no setting 'beta'; it has none.
    """
    known = set(signature(kind).parameters)
    given: dict[str, Any] = {}
    for key, value in pairs(settings, "--set", "beta=0.5").items():
        if key not in known:
            raise SettingError(f"{name} has no setting {key!r}; it has {', '.join(sorted(known)) or 'none'}.")
        given[key] = parse_value(value)
    return given


def sampler_for(model: Recommender, name: str | None, settings: Sequence[str], training: Mapping[str, Any]) -> Sampler:
    """The sampler of that name, or the model's own, with ``NAME=VALUE`` settings.

    Examples
    --------
    >>> import vitalrank as vr
    >>> sampler_for(vr.MF(), None, ["kappa=8"], {})
    VINS(beta=0.5, kappa=8, margin=1.0, shots=8, weight='log2')
    """
    if name is not None:
        return make_sampler(name, settings)
    own = default_sampler(model, TrainConfig(**{**model.defaults, **training}))
    return replace(own, **settings_of(type(own), sampler_name(own), settings))


def pairs(settings: Iterable[str], flag: str, example: str) -> dict[str, str]:
    """``NAME=VALUE`` texts as a table.

    Examples
    --------
    >>> pairs(["beta=0..1"], "--range", "beta=0..1")
    {'beta': '0..1'}
    """
    table: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SettingError(f"{flag} {setting!r} is not NAME=VALUE, such as {example}.")
        table[key.strip()] = value
    return table


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


def plain(made: Sampler | Recommender) -> dict[str, Any]:
    """All settings of a sampler or a model, as a config file holds them.

    Examples
    --------
    >>> import vitalrank as vr
    >>> plain(vr.VINS(shots=None))["shots"], plain(vr.MF(dim=8))["dim"]
    ('none', 8)
    """
    settings = asdict(made) if isinstance(made, Sampler) else made.settings()
    return {name: text_of(value) if value is None else value for name, value in settings.items()}


def fit_file(
    options: Mapping[str, Any], name: str, model: Recommender, sampler: Sampler | None, training: Mapping[str, Any]
) -> dict[str, Any]:
    """What a config file of ``fit`` holds for a model, a sampler and the training options that were given.

    ``options`` are those in force by their keys. The model's own defaults stand where nothing was given.
    """
    config = {**asdict(TrainConfig()), **model.defaults, **training}
    steps = {flag.replace("_", "-"): config[field] for flag, field in FIELDS.items()} if sampler is not None else {}
    no_steps = STEPS if sampler is None else ()
    own = {"model", "sampler", "set", *(flag.replace("_", "-") for flag in (*FIELDS, *no_steps))}
    others = {key: value for key, value in options.items() if key not in own}
    sampler_entry = {} if sampler is None else {"sampler": sampler_name(sampler)}
    every = {"model": name, **sampler_entry, **others, **steps}
    table = {**plain(model), **({} if sampler is None else plain(sampler))}
    return {key: value for key, value in every.items() if value is not None} | {"set": table}


def read_log(path: Path, ctx: typer.Context) -> Interactions:
    """The log, by the options of a command that say how to read it."""
    import vitalrank as vr

    return vr.read(path, **format_of(ctx)).k_core(ctx.params["min_user"], ctx.params["min_item"])


def save_config(ctx: typer.Context, values: Mapping[str, Any]) -> None:
    """Write settings to the file of ``--save-config``, if one is asked for; the same settings may stand there."""
    from vitalrank._util.files import write_text
    from vitalrank._util.outputs import check_outputs

    path: Path | None = ctx.params["save_config"]
    if path is None:
        return
    text = to_toml(values)
    if path.is_file() and path.read_bytes() == text.encode():
        return
    check_outputs([path], inputs=inputs_of(ctx), force=ctx.params["force"])
    write_text(path, text)
