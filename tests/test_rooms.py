"""The rooms of the library: which may know which, as docs/design.md says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vitalrank

ROOT = Path(vitalrank.__file__).parent
PLAIN = {"errors", "checks", "threads", "devices", "memory", "__version__"}  # everybody may know these
MAY_KNOW = {
    "errors": set(),
    "checks": set(),
    "threads": set(),
    "devices": set(),
    "memory": set(),
    "interactions": {"readers"},
    "readers": {"interactions"},
    "datasets": {"interactions", "readers"},
    "kernels": {"losses"},
    "samplers": {"interactions", "kernels"},
    "losses": set(),
    "metrics": set(),
    "models": {"interactions", "kernels", "losses", "samplers", "training", "checkpoint", "serving", "evaluation"},
    "training": {"interactions", "samplers", "losses", "models", "checkpoint", "evaluation"},
    "checkpoint": set(),
    "evaluation": {"interactions", "kernels", "metrics", "models"},
    "serving": {"interactions", "models", "evaluation", "exporting"},
    "exporting": {"models"},
    "analysis": {"interactions", "samplers", "models", "training", "evaluation"},
    "comparing": {"interactions", "datasets", "samplers", "models", "training", "evaluation", "metrics", "analysis"},
    "tuning": {"interactions", "kernels", "samplers", "models", "training", "evaluation", "comparing"},
    "paper": {
        "interactions", "datasets", "samplers", "models", "training", "evaluation", "analysis", "comparing", "tuning",
    },
    "report": {"training", "comparing", "reporting"},
    "reporting": {"training", "analysis", "comparing"},
}  # fmt: skip
# Where a room knows a part of another only.
PARTS = {
    ("interactions", "readers"): {"readers.frames"},
    ("kernels", "losses"): {"losses"},
    ("models", "samplers"): {"samplers.base", "samplers.arrays", "samplers"},
    ("models", "evaluation"): {"evaluation"},
    ("training", "models"): {"models.base"},
    ("training", "losses"): {"losses"},
    ("evaluation", "models"): {"models.base"},
    ("serving", "models"): {"models.base"},
    ("exporting", "models"): {"models.base"},
}
OWN_SAMPLERS = {"models/cml.py", "models/irgan.py"}  # models that cannot do without theirs


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


def test_every_room_is_known():
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "cli"} == MAY_KNOW.keys()


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_what_it_may(room):
    for path in files_of(room):
        others = {name for name in imports_of(path) if name.split(".")[0] != room}
        for name in others:
            other = name.split(".")[0]
            assert other in MAY_KNOW[room] | PLAIN, f"{path.name} imports {name}"
            assert name in PARTS.get((room, other), {name}), f"{path.name} imports {name}"


def test_a_model_names_no_sampler_but_its_own():
    """Engines ask a bound sampler in the words of ``samplers.base``; which one it is they do not know."""
    for path in files_of("models"):
        if str(path.relative_to(ROOT)) not in OWN_SAMPLERS:
            assert "samplers" not in imports_of(path), path.name
