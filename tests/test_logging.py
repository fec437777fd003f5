"""The library tells what it does through ``logging`` and never prints."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

import vitalrank as vr

SOURCE = Path(vr.__file__).parent
FILES = [path for path in SOURCE.rglob("*.py") if "cli" not in path.relative_to(SOURCE).parts]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_prints(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if isinstance(call, ast.Name) and call.id == "print"]


def test_an_epoch_is_a_line_of_the_log(caplog):
    log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    with caplog.at_level(logging.INFO, logger="vitalrank"):
        vr.MF(dim=4).fit(log, epochs=2, threads=1)
    messages = [record.getMessage() for record in caplog.records if record.name == "vitalrank.training.loop"]
    assert [line.partition(":")[0] for line in messages] == ["epoch 1 of 2", "epoch 2 of 2"]


@pytest.mark.parametrize("model", [vr.MF(dim=4), vr.FPMC(dim=4)], ids=repr)
def test_a_training_that_finds_nothing_to_train_on_says_so(model, caplog):
    model.fit(vr.Interactions.from_arrays([1, 1, 2, 2], [7, 8, 7, 8]), vr.Uniform(), epochs=2)
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == ["no positive could be trained on: the model keeps its initial values; see the history"]
