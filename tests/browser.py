"""A real browser for the tests: run a script inside a page and get back what it found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
    "--hide-scrollbars", "--enable-logging=stderr",
)  # fmt: skip


def find() -> str | None:
    """The path of a browser, if one is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def probe(page: Path, script: str, folder: Path, size: tuple[int, int] = (1200, 900)) -> tuple[Any, list[str]]:
    """The value of ``script`` (the body of a function) in the page, and the errors of its console."""
    marked = folder / "probed.html"
    call = f"const found = (() => {{ {script} }})(); const out = document.createElement('pre'); out.id = 'probe';"
    write = "out.textContent = JSON.stringify(found); document.body.append(out);"
    marked.write_text(page.read_text("utf-8").replace("</body>", f"<script>{call}{write}</script></body>"), "utf-8")
    done = run(folder, f"--window-size={size[0]},{size[1]}", "--dump-dom", marked.as_uri())
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert found, f"the page's script did not run: {errors or done.stderr[-500:]}"
    return json.loads(unescape(found[1])), errors


def screenshot(page: Path, target: Path, size: tuple[int, int], dark: bool = False) -> None:
    """A picture of the page."""
    scheme = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    run(target.parent, *scheme, f"--window-size={size[0]},{size[1]}", f"--screenshot={target}", page.as_uri())


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    profile = folder / "profile"
    command = [find() or "chromium", *FLAGS, f"--user-data-dir={profile}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
