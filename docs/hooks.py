"""What the build adds to Markdown: formulas as MathML, notebooks as pages. Nothing is asked from the network."""

from __future__ import annotations

import ast
import json
import re
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

import vitalrank

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
REPOSITORY = "https://github.com/vitalrank/vitalrank"
SOURCE = Path(__file__).parents[1] / "src"
SOURCE_LINK = re.compile(r"(\[(?:`([\w.]+)`|[^\]]+)\])\(\.\./src/([\w/.]+)\)")
ROLE = re.compile(r":(?:func|class|meth|mod|attr|data):<code>~?([\w.]+)</code>")  # as docstrings write references
PUBLIC_NAME = re.compile(r"^::: vr\.(\S+)$", re.MULTILINE)
SHIM = "https://unpkg.com/iframe-worker/shim"
NOTEBOOK_LINK = re.compile(r"(\]\([^)\s]*)\.ipynb\)")


def on_files(files: Any, config: Any) -> Any:
    """Each notebook gets a page beside it."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=page_of(json.loads(text))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to a notebook, which code hosts show, lead to its page here; public names to where they are defined."""
    return PUBLIC_NAME.sub(directive, SOURCE_LINK.sub(source_link, NOTEBOOK_LINK.sub(r"\1.md)", markdown)))


def source_link(found: re.Match[str]) -> str:
    """A link to a file of the source leads to the line that defines what it names."""
    path, name = found[3], found[2]
    line = line_of(name, (SOURCE / path).read_text(encoding="utf-8")) if name else None
    return f"{found[1]}({REPOSITORY}/blob/main/src/{path}{'' if line is None else f'#L{line}'})"


def line_of(name: str, text: str) -> int:
    """Where ``Class.method`` or a function or class is defined.

    Raises
    ------
    LookupError
        The file does not define it.
    """
    body: list[ast.stmt] = ast.parse(text).body
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        node = next((one for one in body if isinstance(one, kinds) and one.name == part), None)
        if node is None:
            raise LookupError(f"{name} is not defined there")
        body = node.body
    return node.lineno


def reference(found: re.Match[str]) -> str:
    """A link that mkdocstrings resolves, by the name's definition; without one on these pages it stays code."""
    shown = f"<code>{found[1].replace('vitalrank.', 'vr.', 1)}</code>"
    value: Any = vitalrank
    for name in found[1].split(".")[1:]:
        value = getattr(value, name, None)
    identifier = getattr(value, "__qualname__", None) and f"{value.__module__}.{value.__qualname__}"
    return f'<autoref optional identifier="{identifier}">{shown}</autoref>' if identifier else shown


def directive(found: re.Match[str]) -> str:
    """What mkdocstrings reads: ``::: vr.MF`` becomes the module that defines it, headed by its public name."""
    value: Any = vitalrank
    for name in found[1].split("."):
        value = getattr(value, name, None) or import_module(f"{value.__name__}.{name}")
    lines = ["options:", f'  heading: "vr.{found[1]}"', f'  toc_label: "vr.{found[1]}"']
    return "\n    ".join([f"::: {value.__module__}.{value.__qualname__}", *lines])


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without help; references in docstrings as links where a page has them."""
    html = ROLE.sub(reference, html)
    return FORMULA.sub(lambda found: mathml(unescape(found[2]).strip(), block=found[1] == "div"), html)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The search of a page opened from disk needs a shim: ours is beside the pages, not on the network."""
    return output.replace(SHIM, get_relative_url("scripts/iframe-worker.js", page.url))


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    return output_content.replace(SHIM, "scripts/iframe-worker.js")


def mathml(latex: str, block: bool) -> str:
    return str(convert(latex, display="block" if block else "inline"))


def page_of(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown: its words, its code, and what the code printed and drew."""
    return "\n\n".join(part for cell in notebook["cells"] for part in parts_of(cell)) + "\n"


def parts_of(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```py\n{source}\n```", *(shown for output in cell["outputs"] if (shown := output_of(output)))]


def output_of(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    return f"```text\n{''.join(data.get('text/plain', []))}\n```"
