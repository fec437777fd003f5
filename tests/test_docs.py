"""Every Python block of the README and the docs runs; the blocks of one page share their names."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import fields
from pathlib import Path

import pytest

from vitalrank.samplers import SAMPLERS

ROOT = Path(__file__).parents[1]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})
OPTIONAL = {"torch", "optuna", "matplotlib", "plotly", "pandas", "polars"}
KNOB = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": page.stem}
    for block in BLOCK.finditer(text):
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block.group(1), str(page), "exec")  # so that errors name the page's line
        try:
            exec(code, names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_page_of_a_sampler(name):
    """It has code, is listed, and names every knob with the default it has."""
    page = (ROOT / f"docs/samplers/{name}.md").read_text(encoding="utf-8")
    assert BLOCK.search(page)
    assert f"({name}.md)" in (ROOT / "docs/samplers/index.md").read_text(encoding="utf-8")
    knobs = {knob: literal_eval(default) for knob, default in KNOB.findall(page)}
    assert knobs == {field.name: field.default for field in fields(SAMPLERS[name])}
