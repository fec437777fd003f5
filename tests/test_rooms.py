"""The rooms of the library: which may know which, as docs/design.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import vitalrank
from vitalrank.engines.base import Engine

ROOT = Path(vitalrank.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
OWN_SAMPLERS = {"models/cml.py", "models/irgan.py"}  # models that cannot do without theirs


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def table() -> dict[str, set[str]]:
    """Room -> what it may know, in the words of the page."""
    rows = PAGE.partition("| room | holds | may know |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {
        room.removesuffix(".py").rstrip("/"): set(quoted(last)) for first, _, last in cells for room in quoted(first)
    }


MAY_KNOW = table()
PLAIN = set(list(MAY_KNOW)[:7])  # the first row, which everybody may know
ROOMS = [room for room in MAY_KNOW if room != "cli"]  # the command line may know everything


def files_of(room: str) -> list[Path]:
    folder = ROOT / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{room}.py"]


def imports_of(path: Path) -> set[str]:
    """What a file imports of the library, anywhere in it: ``samplers.base``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vitalrank":
            names = (
                [f"{node.module}.{name.name}" for name in node.names] if node.module == "vitalrank" else [node.module]
            )
            found |= {str(name).partition(".")[2] for name in names}
        elif isinstance(node, ast.Import):
            found |= {name.name.partition(".")[2] for name in node.names if name.name.startswith("vitalrank")}
    return found


def is_covered(name: str, known: set[str]) -> bool:
    """Whether ``samplers.base`` is among ``samplers/``, ``samplers`` or ``samplers.base``."""
    return name in known or f"{name.split('.')[0]}/" in known


def others(room: str) -> dict[str, str]:
    """What a room imports of the others, with a file that does."""
    found = {name: path.name for path in files_of(room) for name in imports_of(path)}
    return {name: file for name, file in found.items() if name.split(".")[0] not in {room, "__version__", *PLAIN}}


def test_every_room_is_known():
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} == MAY_KNOW.keys()
    assert {"errors", "checks", "threads", "devices", "memory", "locks", "files"} == PLAIN


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_knows_what_it_may(room):
    for name, file in others(room).items():
        assert is_covered(name, MAY_KNOW[room]), f"{file} imports {name}"


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_allows_no_more_than_there_is(room):
    for known in MAY_KNOW[room]:
        found = [name for name in others(room) if is_covered(name, {known})]
        assert found, f"{room} needs no {known}"


def test_the_page_names_what_an_engine_gives():
    given = PAGE.partition("An **engine** gives\n")[2].partition(":")[0]
    members = {name for name in vars(Engine) if not name.startswith("_")}
    assert set(quoted(given)) == members | {"step"}


def test_a_model_names_no_sampler_but_its_own():
    """Engines ask a bound sampler in the words of ``samplers.base``; which one it is they do not know."""
    for path in files_of("models"):
        if str(path.relative_to(ROOT)) not in OWN_SAMPLERS:
            assert "samplers" not in imports_of(path), path.name
