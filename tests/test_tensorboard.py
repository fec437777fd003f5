"""The TensorBoard callback: the event file holds the history."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vitalrank as vr


def test_the_curves_are_those_of_the_history(tmp_path):
    pytest.importorskip("torch")
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train, valid = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0).split_last(0.2)
    with vr.training.TensorBoard(tmp_path) as board:
        model = vr.MF(dim=8).fit(train, valid=valid, epochs=3, valid_every=2, seed=0, callbacks=[board])
    events = reading.EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss", "tries", "vanished", "ndcg@10"):
        written = {event.step: event.value for event in events.Scalars(name)}
        known = {record["epoch"]: record[name] for record in model.history if name in record}
        assert written == pytest.approx(known)
    assert {event.step for event in events.Scalars("ndcg@10")} == {2, 3}


def test_without_tensorboard_it_says_what_to_install():
    code = (
        "import sys; sys.modules['torch.utils.tensorboard'] = None\n"
        "import vitalrank as vr\n"
        "try: vr.training.TensorBoard('here')\n"
        "except vr.SettingError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install torch tensorboard" in done.stdout
