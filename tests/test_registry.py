"""The registries, and what the package shows of them: the same names at runtime and to a type checker."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vitalrank as vr
from vitalrank import registry
from vitalrank.config import TrainConfig
from vitalrank.errors import SettingError
from vitalrank.evaluation.measuring import metric_names
from vitalrank.kernels.optimizers import OPTIMIZERS
from vitalrank.losses import LOSSES
from vitalrank.models.trainable import FitOptions, TrainableModel
from vitalrank.samplers import SAMPLERS

ROOT = Path(vr.__file__).parent
REGISTRIES = [registry.SAMPLERS, registry.MODELS, registry.LOSSES, registry.OPTIMIZERS, registry.METRICS]
SCRIPT = """\
import numpy as np
import vitalrank as vr

log = vr.read("log.tsv")
reveal_type(log)  # Interactions
model = vr.MF(dim=8)
reveal_type(model)  # MF
reveal_type(model.fit(log, vr.VINS(), epochs=3))  # MF
reveal_type(vr.evaluate(model, log))  # Evaluation
reveal_type(vr.DNS().bind(log, seed=0))  # BoundSampler
reveal_type(vr.samplers.CML())  # CML
reveal_type(vr.models.MF())  # MF
reveal_type(model.recommend([7, 8], n=5)[0])  # ndarray
reveal_type(vr.losses.bpr(np.zeros(2), np.zeros((2, 1))))  # ndarray
model.fit(log, vr.VINS)  # error
vr.Nope  # error
vr.MF(dimm=3)  # error
model.fit(log, epoch=3)  # error
model.fit(log, epochs="3")  # error
"""


@pytest.mark.parametrize(("kind", "name"), [(number, name) for number, kind in enumerate(REGISTRIES) for name in kind])
def test_each_entry_is_found_where_it_says(kind, name):
    entry = REGISTRIES[kind].find(name)
    if entry.target.startswith("models."):
        pytest.importorskip("torch")
    assert entry.load().__name__ == entry.class_name


def test_the_tables_of_the_modules_have_the_names_of_the_registries():
    assert list(LOSSES) == list(registry.LOSSES)
    assert set(OPTIMIZERS) == set(registry.OPTIMIZERS)
    assert list(SAMPLERS) == list(registry.SAMPLERS)
    assert metric_names("all") == list(registry.METRICS)


def test_an_unknown_name_is_one_sentence():
    with pytest.raises(SettingError, match="unknown sampler 'best'; choose one of uni, pop"):
        registry.SAMPLERS.find("best")
    with pytest.raises(AttributeError, match="module 'vitalrank' has no attribute 'Nope'"):
        vr.Nope  # noqa: B018


def test_the_stub_the_registries_and_all_agree():
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    shown = {name.asname for node in stub.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert shown | {"__version__"} == set(vr.__all__) == set(vr.__all__) & set(dir(vr))
    assert set(registry.PUBLIC) <= shown


def test_the_options_of_fit_are_those_of_the_settings_and_of_the_trainer():
    import inspect

    trainer = set(inspect.signature(vr.Trainer.__init__).parameters) - {"self", "config"}
    hints = inspect.get_annotations(TrainConfig)
    assert set(FitOptions.__annotations__) == set(hints) | trainer
    for name, hint in hints.items():
        assert FitOptions.__annotations__[name].__forward_arg__ == hint
    shown = inspect.signature(TrainableModel.fit).parameters
    assert list(shown) == ["self", "train", "sampler", "valid", "start", *FitOptions.__annotations__]


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_a_users_script_is_checked(checker, tmp_path):
    pytest.importorskip(checker)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT.parent)]}))
    command = {  # mypy with the settings and the cache of the repository, which it has read all of already
        "mypy": ["mypy", str(script)],
        "basedpyright": ["basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable, str(script)],
    }[checker]
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT.parents[1], capture_output=True, text=True, check=False
    )
    lines = SCRIPT.splitlines()
    said = dict.fromkeys(range(1, len(lines) + 1), "")
    for number, text in re.findall(r"script\.py:(\d+)(?::\d+)?:? -? ?(.*)", done.stdout):
        said[int(number)] += text + "\n"
    for number, line in enumerate(lines, 1):
        wanted = line.partition("  # ")[2]
        if wanted == "error":
            assert "error" in said[number], (line, done.stdout)
        elif wanted:
            assert re.search(rf"\b{wanted}\b", said[number]), (line, done.stdout)
            assert "error" not in said[number], (line, said[number])
