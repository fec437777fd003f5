"""A short run of every area of tests/fuzz; ``make fuzz`` runs them for as long as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz import areas

NEEDS = {"serve": ["starlette"], "stops": ["optuna"], "best": ["optuna"]}
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("area", areas())
def test_bad_input_ends_in_an_error_of_ours_or_a_valid_result(area):
    for module in NEEDS.get(area, ()):
        pytest.importorskip(module)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", area, "--seconds", "2"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
