"""Public names of a package that are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from vitalrank.errors import SettingError

_EXTRAS = {
    "torch": "torch",
    "triton": "torch",
    "optuna": "tune",
    "matplotlib": "report",
    "sklearn": "report",
    "starlette": "serve",
    "uvicorn": "serve",
}


def load_target(target: str) -> Any:
    """The object at ``"module:name"``, or the module at ``"module"``, relative to ``vitalrank``.

    Examples
    --------
    >>> load_target("errors:SettingError").__name__
    'SettingError'
    """
    module, _, name = target.partition(":")
    try:
        found = import_module(f"vitalrank.{module}")
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get(str(missing.name).partition(".")[0])
        if extra is None:
            raise
        what = name or module.partition(".")[0]
        raise SettingError(f"{what} needs {missing.name}: pip install 'vitalrank[{extra}]'.") from missing
    return getattr(found, name) if name else found


def lazy_names(package: str, targets: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package whose public names are loaded on first use.

    Examples
    --------
    >>> getter, _ = lazy_names("vitalrank.errors", {"Error": "errors:VitalrankError"})
    >>> getter("Error").__name__
    'VitalrankError'
    """

    def load(name: str) -> Any:
        if name not in targets:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = load_target(targets[name])
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *targets})
