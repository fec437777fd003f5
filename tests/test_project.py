"""What surrounds the code: workflows call targets that exist, the version is written once, files parse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import vitalrank

ROOT = Path(__file__).parents[1]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
YAML_FILES = [*WORKFLOWS, *(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_a_yaml_file_parses(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_targets_that_exist(path):
    called = re.findall(r"\bmake ([a-z-]+)", path.read_text(encoding="utf-8"))
    assert set(called) <= TARGETS


def test_every_target_is_documented():
    head = (ROOT / "Makefile").read_text(encoding="utf-8").partition("PYTHON ?=")[0]
    inner = {"help", "lint", "types", "unit"}  # parts of test
    assert TARGETS - inner <= set(re.findall(r"make ([a-z-]+)", head))


def test_the_version_is_written_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
    assert f"## {vitalrank.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_lock_pins_what_is_chosen_by_hand():
    lock = set((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
    pins = {line.partition(" ;")[0] for line in lock}
    chosen = [line for line in (ROOT / "constraints.in").read_text(encoding="utf-8").splitlines() if "==" in line]
    assert chosen
    assert set(chosen) <= pins
    assert not any("://" in line for line in lock)
