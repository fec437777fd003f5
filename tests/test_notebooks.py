"""The notebooks run from top to bottom, and keep what they showed."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the same bits, and no waiting for each other where cores are few
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = outputs(notebook)
    assert not [output for output in shown if output.get("name") == "stderr"]
    assert "site-packages" not in str(shown)  # a warning, with the path of a machine


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_what_it_showed(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    kept = outputs(notebook)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert sum("image/png" in output.get("data", {}) for output in kept) >= 2
    assert not [output for output in kept if output.output_type == "error"]
    assert "site-packages" not in path.read_text(encoding="utf-8")


def test_there_is_a_notebook():
    assert NOTEBOOKS
