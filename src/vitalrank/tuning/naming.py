"""Names of models and samplers as a search records them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vitalrank.models import model_names
from vitalrank.samplers import SAMPLERS, Sampler

_OWN = "own"  # a model that no registry knows


def model_name(make: Callable[..., Any]) -> str:
    inner = make.func if isinstance(make, partial) else make
    name = getattr(inner, "__name__", "").lower()
    return name if name in {known.lower() for known in model_names()} else _OWN


def sampler_name(sampler: Sampler) -> str:
    """The name of a sampler in the registry.

    Examples
    --------
    >>> import vitalrank as vr
    >>> sampler_name(vr.VINS())
    'vins'
    """
    return next((name for name, kind in SAMPLERS.items() if type(sampler) is kind), _OWN)
