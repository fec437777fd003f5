"""What is to be compared: entries, seeds, settings, and the checks before anything runs."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from vitalrank import __version__
from vitalrank._util.checks import MOST_SEED, to_builtin_scalar, to_int
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.interactions import Interactions
from vitalrank.models import is_trained
from vitalrank.samplers import Sampler

_PACKAGES = ("numpy", "scipy", "numba")


@dataclass(frozen=True)
class Entry:
    """One line of a comparison: how to make the model, and the sampler it is trained with, if any."""

    label: str
    make: Callable[[], Any]
    sampler: Sampler | None = None


def entries_of(samplers: Mapping[str, Sampler], models: Mapping[str, Callable[[], Any]]) -> list[Entry]:
    """Every model with every sampler; a model that is not trained with one stands alone.

    Examples
    --------
    >>> import vitalrank as vr
    >>> models = {"mf": lambda: vr.MF(dim=8), "popular": vr.MostPopular}
    >>> [entry.label for entry in entries_of({"uni": vr.Uniform(), "vins": vr.VINS()}, models)]
    ['mf uni', 'mf vins', 'popular']
    """
    trained = [name for name, make in models.items() if is_trained(make())]
    entries = []
    for name, make in models.items():
        if name not in trained:
            entries.append(Entry(name, make))
            continue
        for key, sampler in samplers.items():
            entries.append(Entry(key if len(models) == 1 else f"{name} {key}", make, sampler))
    return entries


def own_settings(entries: Sequence[Entry], config: TrainConfig, fixed: Collection[str]) -> dict[str, Any]:
    """By entry, the settings that are not the config's but the model's own."""
    given = asdict(config)
    trained = {
        entry.label: asdict(config.with_defaults(entry.make().defaults, fixed)) for entry in entries if entry.sampler
    }
    changed = {label: {k: v for k, v in taken.items() if v != given[k]} for label, taken in trained.items()}
    return {label: settings for label, settings in changed.items() if settings}


def facts_of(log: Interactions, config: TrainConfig, test: float, valid: float, seeds: Sequence[int]) -> dict[str, Any]:
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
    versions = {name: metadata.version(name) for name in (*_PACKAGES, *packages)}
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


def check(entries: Sequence[Entry], test: float, valid: float) -> None:
    """Refuse what cannot be compared."""
    if not entries:
        raise SettingError("nothing to compare; name at least one sampler, or a model without one.")
    slugs = [slug(entry.label) for entry in entries]
    for name, entry in zip(slugs, entries, strict=True):
        if slugs.count(name) > 1:
            raise SettingError(f"two entries would share the name {entry.label!r}; rename one.")
    for name, share in (("test", test), ("valid", valid)):
        if not share > 0:
            raise SettingError(f"{name}={share!r}: a comparison needs that part; give a share above 0.")


def check_margin(entries: Sequence[Entry], config: TrainConfig, fixed: Collection[str]) -> None:
    """Refuse a margin that was set and that no entry's loss has."""
    taken = [config.with_defaults(entry.make().defaults, fixed) for entry in entries if entry.sampler is not None]
    if not any(one.has_margin() for one in taken):
        config.check_margin()


def slug(label: str) -> str:
    """A label as a file name.

    Examples
    --------
    >>> slug("mf LFM-W")
    'mf-lfm-w'
    """
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "run"
