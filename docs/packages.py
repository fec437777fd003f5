"""Draws docs/images/packages.svg: the packages of the library and their arrows, from the imports in the source.

    python docs/packages.py

An arrow that follows from two others is left out. A test compares the picture with the imports of today.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "vitalrank"
PICTURE = ROOT / "docs" / "images" / "packages.svg"
EVERYWHERE = {"_util", "errors"}  # every package may import them
WIDTH, ROW, BOX = 880, 74, (104, 30)
Graph = dict[str, set[str]]


def imports() -> Graph:
    """Package -> packages it imports, lazily or for types too."""
    graph: Graph = {}
    for path in sorted(SOURCE.rglob("*.py")):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        if own.startswith("__") or own in EVERYWHERE:
            continue
        found = {name for name in imported(ast.parse(path.read_text(encoding="utf-8"))) if name != own}
        graph.setdefault(own, set()).update(found - EVERYWHERE)
    return {own: found & graph.keys() for own, found in graph.items()}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vitalrank":
            modules = [node.module] if node.module != "vitalrank" else [f"vitalrank.{name.name}" for name in node.names]
            names |= {str(module).split(".")[1] for module in modules}
    return names


def reduced(graph: Graph) -> Graph:
    """Without the arrows that follow from others."""

    def reach(package: str) -> set[str]:
        return graph[package].union(*(reach(known) for known in graph[package]))

    return {own: known - set().union(*(reach(other) for other in known)) for own, known in graph.items()}


def layers(graph: Graph) -> list[list[str]]:
    """Packages by the longest way down to one that imports nothing; the top first."""

    def height(package: str) -> int:
        return 1 + max((height(known) for known in graph[package]), default=-1)

    heights = {package: height(package) for package in graph}
    return [sorted(name for name in graph if heights[name] == row) for row in range(max(heights.values()), -1, -1)]


def places(graph: Graph) -> dict[str, tuple[float, float]]:
    """The middle of each box; a box stands near those that point at it, so that few arrows cross."""
    found: dict[str, tuple[float, float]] = {}
    for row, names in enumerate(layers(graph)):
        above = {name: [found[other][0] for other in found if name in graph[other]] for name in names}
        names = sorted(
            names, key=lambda name: (sum(above[name]) / len(above[name]) if above[name] else WIDTH / 2, name)
        )
        for number, name in enumerate(names):
            found[name] = (WIDTH * (number + 1) / (len(names) + 1), ROW * row + 40)
    return found


def svg(graph: Graph) -> str:
    """The picture as text."""
    at, arrows, (width, height) = places(graph), reduced(graph), BOX
    bottom = max(y for _, y in at.values()) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}" role="img" '
        'font-family="sans-serif" font-size="13"><title>Packages of vitalrank and what they import</title>',
        f'<rect width="{WIDTH}" height="{bottom:.0f}" rx="8" fill="#ffffff"/>',
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#8a99a3"/></marker>',
    ]
    for own, known in sorted(arrows.items()):
        for other in sorted(known):
            (x, y), (to_x, to_y) = at[own], at[other]
            begin, end = y + height / 2, to_y - height / 2
            bend = (end - begin) / 2
            path = f"M{x:.0f} {begin:.0f}C{x:.0f} {begin + bend:.0f} {to_x:.0f} {end - bend:.0f} {to_x:.0f} {end:.0f}"
            lines.append(f'<path d="{path}" fill="none" stroke="#8a99a3" marker-end="url(#tip)"/>')
    for name, (x, y) in sorted(at.items()):
        box = f'x="{x - width / 2:.0f}" y="{y - height / 2:.0f}" width="{width}" height="{height}" rx="6"'
        lines.append(f'<rect {box} fill="#eef3f6" stroke="#4b6573"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#16242c">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(imports()), encoding="utf-8")
