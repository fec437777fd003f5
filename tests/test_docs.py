"""Every Python block of the README and the docs runs, commands exist, tables are those of the saved numbers.

The blocks of one page share their names. A block marked ``py`` is an example's file, which has a test of its own.
"""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import subprocess
import sys
from ast import literal_eval
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import browser
import vitalrank as vr
import vitalrank.cli
from commands import call
from vitalrank.samplers import SAMPLERS

ROOT = Path(__file__).parents[1]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})
OPTIONAL = {
    "torch",
    "optuna",
    "matplotlib",
    "pandas",
    "polars",
    "implicit",
    "lightfm",
    "tensorboard",
    "mlflow",
    "ray",
    "wandb",
}
SETTING = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
OTHER = re.compile(r"^ *(?:```|~~~) *(?:\{?\.?py\b|\{?\.?python3?\b[^\n]|pycon)[^\n]*\n(.*?)\n", re.MULTILINE)
STEPS = re.compile(r"^```(?:python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
STORIES = ("shop", "compare", "new-day")  # their commands run, too, shortened
SHORTER = {"best": ("--minutes", "0.1", "--epochs", "2"), "compare": ("--tune", "1", "--seeds", "1", "--epochs", "2")}
SHELL = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ )?(vitalrank [^#\n]*)", re.MULTILINE)
EXAMPLE = re.compile(r"^--8<-- \"(examples|tests/reference)/\w+\.py\"$")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    is_story = page.stem in STORIES
    if is_story:
        shorten(monkeypatch)
    names: dict[str, object] = {"__name__": page.stem}
    for block in STEPS.finditer(text) if is_story else BLOCK.finditer(text):
        if block.group(0).startswith("```sh"):
            for line in COMMAND.findall(block.group(1)):
                command, *words = shlex.split(line)[1:]
                assert call(command, *words, *SHORTER.get(command, ())) == 0, line
            continue
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block.group(1), str(page), "exec")  # so that errors name the page's line
        try:
            exec(code, names)
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            pytest.skip(f"{error.name} is not installed")


def shorten(monkeypatch):
    """So few trials, and of so few models, that a search takes seconds."""
    pytest.importorskip("optuna")
    monkeypatch.setattr("vitalrank.selection.contest.MOST_TRIALS", 1)
    monkeypatch.setattr("vitalrank.selection.candidates.TORCH_MODELS", ())


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_page_of_a_sampler(name):
    """It has code, is listed, and names every setting with the default it has."""
    page = (ROOT / f"docs/samplers/{name}.md").read_text(encoding="utf-8")
    assert BLOCK.search(page)
    assert f"({name}.md)" in (ROOT / "docs/samplers/index.md").read_text(encoding="utf-8")
    settings = {name: literal_eval(default) for name, default in SETTING.findall(page)}
    assert settings == {field.name: field.default for field in fields(SAMPLERS[name])}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_no_code_that_is_not_run(page):
    text = page.read_text(encoding="utf-8")
    for first_line in OTHER.findall(text):
        assert EXAMPLE.fullmatch(first_line), first_line
    assert text.count("```python") == len(BLOCK.findall(text)), "an indented block is not run"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_exist_with_their_options(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in SHELL.findall(page.read_text(encoding="utf-8")):
        for line in COMMAND.findall(block.replace("\\\n", " ")):
            name, command, words = "vitalrank", command_line(), shlex.split(line)[1:]
            if "--config" in words:  # is read while options are
                file = Path(words[words.index("--config") + 1])
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            while hasattr(command, "resolve_command"):
                name, command, words = command.resolve_command(command.context_class(command), words)
            with command.make_context(name, words):
                pass  # made: every option is known and has a value of its type


@cache
def command_line():
    import typer

    app = typer.Typer()
    for name in vitalrank.cli.FILES:
        vitalrank.cli.add_command(app, name)
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", [*SAMPLERS, "known", "in-batch"])
def test_a_sampler_links_its_plain_definition(name):
    page = (ROOT / f"docs/samplers/{name}.md").read_text(encoding="utf-8")
    file = re.search(r"^Read first: the \[plain definition\]\(#plain-definition\), `(.*)`\.$", page, re.MULTILINE)[1]
    assert (ROOT / file).is_file()
    assert page.endswith(f'## Plain definition\n\n```{{.py title="{file}"}}\n--8<-- "{file}"\n```\n')
    sampler = {"known": vr.Known, "in-batch": vr.InBatch}.get(name) or SAMPLERS[name]
    assert f"Read the plain definition first: ``{file}``." in inspect.getdoc(sampler)


def test_the_tables_of_the_sampler_page_are_those_of_the_saved_numbers():
    script = runpy.run_path(str(ROOT / "benchmarks/choose_table.py"))
    text = (ROOT / "docs/choose.md").read_text(encoding="utf-8")
    assert script["renewed"](text) == text, "run python benchmarks/choose_table.py"


@pytest.mark.parametrize("name", SAMPLERS)
def test_each_sampler_has_a_picture_of_its_law(name):
    picture = ROOT / f"docs/images/laws/{name}.svg"
    assert picture.stat().st_size < 60_000
    page = (ROOT / f"docs/samplers/{name}.md").read_text(encoding="utf-8")
    assert f"(../images/laws/{name}.svg)" in page
    for heading in ("## Proposal", "## Cost", "## Settings", "## When to use it, and when not", "## In code"):
        assert f"{heading}\n" in page
    assert "$$" in page


def test_the_pages_build_without_a_warning(tmp_path):
    """As ``make docs``: a broken link or a page that nothing leads to fails."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("latex2mathml")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "unpkg" not in (tmp_path / "404.html").read_text(encoding="utf-8")
    assert "vr.VINS" in (tmp_path / "search/search_index.json").read_text(encoding="utf-8")
    assert "<math" in (tmp_path / "samplers/vins.html").read_text(encoding="utf-8")
    home = tmp_path / "index.html"
    assert not re.search(r'(?:src|href)="https?://(?!arxiv)', home.read_text(encoding="utf-8"))
    if browser.find() is not None:
        _search_works_from_disk(home, tmp_path)


def _search_works_from_disk(home, folder):
    """Also the code of the home page is not cut off."""
    asked = f"{home.as_uri()}?q=kappa"
    done = browser.run(folder, "--virtual-time-budget=15000", "--window-size=1400,900", "--dump-dom", asked)
    found = re.findall(r'<a href="([^"]+)" class="md-search-result__link"', done.stdout)
    assert any("samplers/vins.html" in link for link in found), done.stderr[-500:]
    script = "return [...document.querySelectorAll('pre > code')].map(one => one.scrollWidth - one.clientWidth)"
    widths, _ = browser.probe(home, script, folder, (1400, 900))
    assert widths == [0]


def test_links_into_the_source_lead_to_what_they_name():
    hooks = runpy.run_path(str(ROOT / "docs/hooks.py"))
    found = [link for page in PAGES for link in hooks["SOURCE_LINK"].finditer(page.read_text(encoding="utf-8"))]
    assert len(found) > 20
    for link in found:
        assert re.search(r"#L\d+\)$", hooks["source_link"](link)) or link[2] is None


def test_the_picture_of_the_packages_is_of_the_imports_of_today():
    script = runpy.run_path(str(ROOT / "docs/packages.py"))
    assert script["PICTURE"].read_text(encoding="utf-8") == script["svg"](script["imports"]()), "run docs/packages.py"
