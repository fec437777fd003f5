"""The examples run as they stand and learn something."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_own_loop_learns_in_sixty_lines(capsys):
    torch = pytest.importorskip("torch")
    path = EXAMPLES / "own_loop.py"
    assert len(path.read_text().splitlines()) <= 60
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    told = capsys.readouterr().out
    losses, gains = ([float(value) for value in re.findall(rf"{name} (\S+)", told)] for name in ("loss", "ndcg@10"))
    assert len(losses) == len(gains) == 8
    assert losses[-1] < 0.85 * losses[0]
    assert gains[-1] > 0.1


def test_text_encoder_learns_on_mined_negatives(capsys):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runpy.run_path(str(EXAMPLES / "text_encoder.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    losses, recalls = ([float(value) for value in re.findall(rf"{name} (\S+)", said)] for name in ("loss", "recall@5"))
    assert losses[-1] < losses[0]
    assert recalls[-1] > max(recalls[0], 0.8)


@pytest.mark.parametrize(
    ("example", "package", "name"),
    [("lightning_loop", "lightning", "loss"), ("hugging_face_trainer", "transformers", "recall@5")],
)
def test_loops_of_other_libraries_learn(example, package, name, capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip(package, reason=f"examples/{example}.py needs {package}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    found = [float(value) for value in re.findall(rf"epoch .*{name} (\S+)", capsys.readouterr().out)]
    assert len(found) >= 4
    assert found[-1] < found[0] if name == "loss" else found[-1] > max(found[0], 0.9)
