"""What is published follows from the data beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vitalrank.paper.page import ANSWER, NOTES, write_page
from vitalrank.paper.registry import EXPERIMENTS
from vitalrank.paper.running import page_of, read_all

PUBLISHED = Path(__file__).parents[1] / "docs" / "paper"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_published_page_is_made_from_its_data(name):
    data = json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))
    assert (PUBLISHED / f"{name}.md").read_text(encoding="utf-8") == page_of(EXPERIMENTS[name], data)


def test_data_of_older_versions_make_a_page_of_their_own(tmp_path):
    data = json.loads((PUBLISHED / "figure2.json").read_text(encoding="utf-8"))
    del data["facts"]["settings"]["schedule"]
    (tmp_path / "figure2.json").write_text(json.dumps(data), encoding="utf-8")
    assert "its learning rate is ?" in write_page(read_all(tmp_path), tmp_path / "index.md").read_text()


def test_the_page_of_claims_is_made_from_the_data(tmp_path):
    for name in (ANSWER, NOTES):
        shutil.copy(PUBLISHED / name, tmp_path)
    page = write_page(read_all(PUBLISHED), tmp_path / "index.md")
    assert (PUBLISHED / "index.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
