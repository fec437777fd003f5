"""What is to be compared: methods, seeds, settings, and the checks before anything runs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vitalrank import __version__
from vitalrank._util.checks import MOST_SEED, to_builtin_scalar, to_int
from vitalrank.config import SETTINGS, TrainConfig
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models import is_trained, model_class
from vitalrank.samplers import Sampler, find_sampler

if TYPE_CHECKING:
    from vitalrank.models.base import Recommender

BASELINES = ("mostpopular", "itemknn", "ease")
NEIGHBOURS = 100  # of EASE where its dense form is too much
_MOST_EASE_ITEMS = 10_000  # the dense form inverts a matrix of items by items
_PACKAGES = ("numpy", "scipy", "numba")
_SHARED = frozenset({"seed", "metric", "threads", "device"})  # settings that all methods of a comparison share

Samplers = Mapping[str, Sampler] | Sequence[str]
Models = Mapping[str, Callable[[], Any]] | Sequence[str]


@dataclass(frozen=True)
class Method:
    """One line of a comparison: how to make the model, its sampler, and the training settings that it alone has."""

    label: str
    make: Callable[[], Recommender]
    sampler: Sampler | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def config(self, shared: TrainConfig, fixed: Collection[str] = ()) -> TrainConfig:
        """The shared settings, with the model's own defaults where nobody chose and the method's settings on top."""
        return replace(shared.with_defaults(self.make().defaults, {*fixed, *self.training}), **self.training)


def named_samplers(samplers: Samplers) -> dict[str, Sampler]:
    """Samplers by name; names of the registry stand for themselves.

    Examples
    --------
    >>> named_samplers(["uni"])
    {'uni': Uniform()}
    """
    if isinstance(samplers, Mapping):
        return dict(samplers)
    return {name: find_sampler(name)() for name in samplers}


def named_models(models: Models) -> dict[str, Callable[[], Any]]:
    """What makes each model, by name; names of the registry stand for themselves."""
    return dict(models) if isinstance(models, Mapping) else {name: model_class(name) for name in models}


def methods_of(
    samplers: Mapping[str, Sampler],
    models: Mapping[str, Callable[[], Any]],
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Method]:
    """Every model with every sampler; a model that is not trained with one stands alone.

    Parameters
    ----------
    samplers, models
        By the names to show.
    settings
        Training settings by the name of a sampler or a model; a sampler's win.

    Examples
    --------
    >>> import vitalrank as vr
    >>> models = {"mf": lambda: vr.MF(dim=8), "popular": vr.MostPopular}
    >>> methods = methods_of({"uni": vr.Uniform(), "vins": vr.VINS()}, models, {"uni": {"reg": 0.01}})
    >>> [(method.label, method.training) for method in methods]
    [('mf uni', {'reg': 0.01}), ('mf vins', {}), ('popular', {})]
    """
    given = settings or {}
    _check_settings(given, {*samplers, *models})
    methods = []
    for name, make in models.items():
        if not is_trained(make()):
            methods.append(Method(name, make))
            continue
        for key, sampler in samplers.items():
            label = key if len(models) == 1 else f"{name} {key}"
            methods.append(Method(label, make, sampler, {**given.get(name, {}), **given.get(key, {})}))
    return methods


def baselines_of(models: Models | None, log: Interactions, taken: Collection[str] = ()) -> list[Method]:
    """Methods without training to compare with: those named, or the usual ones that are not compared already.

    Examples
    --------
    >>> import vitalrank as vr
    >>> log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    >>> [method.label for method in baselines_of(["mostpopular"], log)]
    ['mostpopular']
    """
    makers = named_models(BASELINES if models is None else models)
    for name, make in makers.items():
        if is_trained(make()):
            raise SettingError(f"{name!r} is trained with a sampler and no baseline; name it among the models.")
    methods = [Method(name, make) for name, make in makers.items() if name not in taken]
    is_large = models is None and log.n_items > _MOST_EASE_ITEMS
    return [sparse_form(method) if is_large and method.label == "ease" else method for method in methods]


def sparse_form(method: Method) -> Method:
    """EASE with each item regressed on its nearest ones alone, for larger catalogues.

    Examples
    --------
    >>> sparse_form(Method("ease", model_class("ease"))).make()
    EASE(reg=300.0, neighbours=100, dropout=0.0, decay=1.0)
    """
    make: Callable[..., Any] = method.make
    return replace(method, label=f"sparse {method.label}", make=partial(make, neighbours=NEIGHBOURS))


def own_settings(methods: Sequence[Method], config: TrainConfig, fixed: Collection[str]) -> dict[str, Any]:
    """By method, the settings that are not the shared ones."""
    given = asdict(config)
    trained = {method.label: asdict(method.config(config, fixed)) for method in methods if method.sampler}
    changed = {label: {k: v for k, v in taken.items() if v != given[k]} for label, taken in trained.items()}
    return {label: settings for label, settings in changed.items() if settings}


def training_identity(config: TrainConfig) -> dict[str, Any]:
    """The settings that decide what a run computes, its seed aside."""
    return {name: value for name, value in asdict(config).items() if name not in ("seed", "threads", "device")}


def metadata_of(
    log: Interactions, config: TrainConfig, test: float, valid: float, seeds: Sequence[int]
) -> dict[str, Any]:
    """Log, split, settings and versions: what it takes to repeat a comparison."""
    training = {name: value for name, value in asdict(config).items() if name not in ("seed", "threads")}
    return {
        "log": {
            "users": log.n_users,
            "items": log.n_items,
            "interactions": len(log),
            "fingerprint": log.fingerprint,
        },
        "split": {"test": to_builtin_scalar(test), "valid": to_builtin_scalar(valid)},
        "training": training,
        "seeds": list(seeds),
        **environment(),
    }


def environment(*packages: str) -> dict[str, Any]:
    """Versions, also of these packages, and the kind of machine; nothing that names it.

    Examples
    --------
    >>> sorted(environment())
    ['machine', 'versions']
    """
    versions = {name: importlib.metadata.version(name) for name in (*_PACKAGES, *packages)}
    return {
        "versions": {"python": platform.python_version(), "vitalrank": __version__, **versions},
        "machine": {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()},
    }


def seeds_of(seeds: int | Sequence[int]) -> list[int]:
    """How many, or which, as a list."""
    listed = seeds if isinstance(seeds, Iterable) else range(to_int("seeds", seeds, least=0))
    chosen = [to_int("seed", seed, least=0, most=MOST_SEED) for seed in listed]
    if not chosen or len(set(chosen)) < len(chosen):
        raise SettingError(f"seeds={seeds!r}: give at least one, each once.")
    return chosen


def check(methods: Sequence[Method], test: float, valid: float) -> None:
    """Refuse what cannot be compared."""
    if not methods:
        raise SettingError("nothing to compare; name at least one sampler, or a model without one.")
    slugs = [slug(method.label) for method in methods]
    for name, method in zip(slugs, methods, strict=True):
        if slugs.count(name) > 1:
            raise SettingError(f"two methods would share the name {method.label!r}; rename one.")
    for name, share in (("test", test), ("valid", valid)):
        if not share > 0:
            raise SettingError(f"{name}={share!r}: a comparison needs that part; give a share above 0.")


def check_margin(methods: Sequence[Method], config: TrainConfig, fixed: Collection[str]) -> None:
    """Refuse a margin that was set and that no method's loss has."""
    taken = [method.config(config, fixed) for method in methods if method.sampler is not None]
    if not any(one.has_margin() for one in taken):
        config.check_margin()


def _check_settings(settings: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> None:
    allowed = sorted(SETTINGS - _SHARED)
    for name, own_ones in settings.items():
        if name not in names:
            raise SettingError(f"settings for {name!r}, which is not compared; these are: {', '.join(names)}.")
        for key in own_ones:
            if key not in allowed:
                raise SettingError(f"{name} has no training setting {key!r} of its own; it has {', '.join(allowed)}.")


def slug(label: str) -> str:
    """A label as a file name.

    Examples
    --------
    >>> slug("mf LFM-W")
    'mf-lfm-w'
    """
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "run"
