"""The reference names everything public, and one page fixes what settings are called."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import vitalrank as vr
from vitalrank.models import model_class, model_names
from vitalrank.samplers import SAMPLERS

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
NAMED = set(re.findall(r"^::: vr\.(\S+)$", REFERENCE, re.MULTILINE))
SETTINGS = (DOCS / "settings.md").read_text(encoding="utf-8")


def public() -> set[str]:
    return {name for name in vr.__all__ if not name.startswith("_") and not isinstance(getattr(vr, name), ModuleType)}


def named_settings(heading: str) -> set[str]:
    part = SETTINGS.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize("name", sorted(public()))
def test_the_reference_holds_every_public_name(name):
    value = getattr(vr, name)
    last_words = {found.rpartition(".")[2] for found in NAMED if reached(found) is value}
    assert last_words, f"add ::: vr.{name} to a page of docs/reference"


def reached(path: str) -> object:
    value: Any = vr
    for name in path.split("."):
        value = getattr(value, name, None) or import_module(f"{value.__name__}.{name}")
    return value


@pytest.mark.parametrize("module", ["datasets", "losses", "metrics", "serving", "tuning"])
def test_the_reference_holds_the_functions_of_a_module(module):
    given = getattr(vr, module)
    names = getattr(given, "__all__", None) or [name for name in vars(given) if not name.startswith("_")]
    own = {name for name in names if getattr(getattr(given, name), "__module__", "").startswith("vitalrank." + module)}
    own = {name for name in own if inspect.isfunction(getattr(given, name))}
    values = {id(reached(name)) for name in NAMED}
    internal = {"find_loss", "harmonic_mean"}
    assert {name for name in own if id(getattr(given, name)) not in values} <= internal


def test_one_page_names_the_settings_of_training():
    assert named_settings("Training") == {field.name for field in fields(vr.TrainConfig)}


def test_one_page_names_the_settings_of_samplers():
    assert named_settings("Samplers") == {field.name for sampler in SAMPLERS.values() for field in fields(sampler)}


def test_one_page_names_the_settings_of_models():
    signatures = [inspect.signature(model_class(name).__init__).parameters for name in model_names()]
    taken = {name for parameters in signatures for name in parameters} - {"self", "args", "kwargs"}
    assert named_settings("Models") == taken


def test_the_glossary_is_in_order():
    words = re.findall(r"^\*\*(.+)\*\*$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(words) > 30
    assert words == sorted(words, key=str.lower)
