"""The packages of the library and their layers: which may import which, as docs/design.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import vitalrank
from vitalrank.engines.base import Engine

ROOT = Path(vitalrank.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs" / "design.md").read_text(encoding="utf-8")
OWN_SAMPLERS = {"models/cml.py", "models/irgan.py"}
EVERYBODY = {"errors", "_util"}  # importable from everywhere


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def table() -> dict[str, set[str]]:
    """Package -> the packages that it imports, as the page says."""
    rows = PAGE.partition("| package | holds | imports |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {package: set(quoted(last)) for first, _, last in cells for package in quoted(first)}


def packages() -> list[str]:
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return sorted(found - {"__init__", "__main__"})


def files_of(package: str) -> list[Path]:
    folder = ROOT / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [ROOT / f"{package}.py"]


def imports_of(path: Path) -> set[str]:
    """The packages that a file imports, anywhere in it: lazily, or for the type checker alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vitalrank":
            inside = str(node.module).partition(".")[2]
            found |= {inside.split(".")[0]} if inside else {name.name for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("vitalrank.")}
    return found - {"__version__"}


def graph() -> dict[str, set[str]]:
    return {package: set().union(*map(imports_of, files_of(package))) - {package} - EVERYBODY for package in packages()}


IMPORTS = graph()
SOURCES = sorted(ROOT.rglob("*.py"))


def test_the_page_names_every_package():
    assert table().keys() | EVERYBODY == set(packages())


@pytest.mark.parametrize("package", [name for name in packages() if name not in {"cli", *EVERYBODY}])
def test_a_package_imports_what_the_page_says(package):
    assert IMPORTS[package] <= table()[package]


def cycles_in(imports: dict[str, set[str]]) -> dict[str, list[str]]:
    """What is left when those without imports go first, then those that import them alone, and so on."""
    left = dict(imports)
    while free := [name for name, known in left.items() if not known & left.keys()]:
        for name in free:
            del left[name]
    return {name: sorted(known & left.keys()) for name, known in left.items()}


def test_no_packages_import_each_other_in_a_cycle():
    assert cycles_in(IMPORTS) == {}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


def modules_imported_by(path: Path) -> set[str]:
    """The modules that a file imports when it runs, inside functions too; not those for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            members = {f"{node.module}.{name.name}" for name in node.names}
            found |= members if members <= MODULES.keys() else {str(node.module)} | members & MODULES.keys()
    return (found & MODULES.keys()) - {module_name(path)}


def test_no_modules_import_each_other_in_a_cycle():
    assert cycles_in({name: modules_imported_by(path) for name, path in MODULES.items()}) == {}


def test_the_page_names_what_an_engine_gives():
    given = PAGE.partition("An **engine** gives\n")[2].partition(":")[0]
    members = {name for name in vars(Engine) if not name.startswith("_")}
    assert set(quoted(given)) - {"engines/base.py"} == members | {"step"}


def test_a_model_names_no_sampler_but_its_own():
    """Engines use a bound sampler through ``samplers.base``; a model knows the types of ``samplers.settings`` alone."""
    for path in files_of("models"):
        if str(path.relative_to(ROOT)) not in OWN_SAMPLERS:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
            assert {name for name in named if "samplers" in name} <= {"vitalrank.samplers.settings"}, path.name


# Names that stand in several modules for one thing.
SHARED_NAMES = {
    "CML": "a model, and the sampler of its paper",
    "IRGAN": "a model, and the sampler of its paper",
    "compare": "vr.compare; the former name of significance, until the next release",
    "load": "of a model, and in vr.datasets of a known data set",
    "main": "the entry point of the program",
    "reject_sample": "Algorithm 1: the kernel, and what calls it",
}


def role_of(path: Path) -> str:
    """Modules of one role may name a thing alike: a kernel of either device, a command and what it calls."""
    part = path.relative_to(ROOT).parts
    if part[0] == "kernels":
        return "kernel"
    return {"cli": "command", "paper": "experiment"}.get(part[0], "library")


def definitions() -> dict[str, list[Path]]:
    """Public top-level functions and all top-level classes, by name."""
    found: dict[str, list[Path]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name[0] != "_"):
                found.setdefault(node.name, []).append(path)
    return found


def are_one_thing(name: str, paths: list[Path]) -> bool:
    roles = [role_of(path) for path in paths]
    if set(roles) == {"experiment"}:
        return (
            len({path.name for path in paths} - {"figures.py", "markdown.py", "cost_tables.py"}) <= 1
        )  # its data, figure and table
    if set(roles) == {"kernel"}:
        return len({path.relative_to(ROOT).parts[1] for path in paths}) == len(
            paths
        )  # what both devices have, or a device's form of what stands above both
    return sorted(roles) == ["command", "library"]


def test_one_name_stands_for_one_thing():
    several = {name: paths for name, paths in definitions().items() if len(paths) > 1}
    assert several.keys() >= SHARED_NAMES.keys(), "an exception that is no longer needed"
    unclear = {
        name: [str(path.relative_to(ROOT)) for path in paths]
        for name, paths in several.items()
        if name not in SHARED_NAMES and not are_one_thing(name, paths)
    }
    assert not unclear


def type_aliases() -> dict[str, set[str]]:
    """What the type aliases of the library stand for, by name; those of commands are their options."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.Assign) or role_of(path) == "command":
                continue
            name = ast.unparse(node.targets[0])
            if re.fullmatch("[A-Z][a-z][A-Za-z]*", name):
                found.setdefault(name, set()).add(ast.unparse(node.value).replace("np.typing.", ""))
    return found


def test_a_type_alias_has_one_meaning_and_no_name_of_a_class():
    aliases = type_aliases()
    assert len(aliases) > 30
    assert {name: values for name, values in aliases.items() if len(values) > 1} == {}
    assert aliases.keys() & definitions().keys() == set()


MOST_LINES = 249
MOST_PARAMETERS = 7
# What people call: each of these parameters is a setting of its own, given by its name.
MANY_SETTINGS = {
    "comparing/running.py:compare",
    "evaluation/measuring.py:evaluate",
    "interactions/building.py:from_codes",
    "mining/mining.py:mine_to",
    "preparing/running.py:prepare_log",
    "readers/__init__.py:read",
    "samplers/base.py:__call__",
    "selection/running.py:best",
    "serving/streaming.py:recommend_all",
    "tuning/running.py:tune",
}


def test_files_are_short():
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}, "split the file"


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def test_functions_have_few_parameters():
    """Kernels aside, whose arguments are arrays and numbers; the parameters of a command are its options."""
    many = set()
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] in ("kernels", "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(parameters_of(node)) > MOST_PARAMETERS:
                many.add(f"{name}:{node.name}")
    assert many == MANY_SETTINGS, "put settings that belong together into a dataclass"
