"""Run areas, each in a process of its own with bounded memory, so that a crash of the interpreter is seen.

``python -m tests.fuzz [AREA ...] [--seconds S] [--cases N] [--seed K] [--first I]``: a case is a function of seed and
number alone; the failure says how to run it again.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
import traceback

from tests.fuzz import areas, case_of

from vitalrank.errors import VitalrankError

MEMORY = 12 << 30  # bytes of address space: torch and Numba's threads take some of it
PATIENCE = 120.0  # seconds for one case, compiling included


def main() -> int:
    given = _arguments()
    if given.inside:
        return _work(given.areas[0], given.seed, given.first, given.cases, given.seconds)
    failed = [area for area in given.areas or areas() if not _run(area, given)]
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("areas", nargs="*", choices=[*areas(), []], help="all by default")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "5")), help="per area")
    parser.add_argument("--cases", type=int, default=1_000_000_000, help="at most so many per area")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(area: str, given: argparse.Namespace) -> bool:
    options = {"seconds": given.seconds, "cases": given.cases, "seed": given.seed, "first": given.first}
    command = [sys.executable, "-m", "tests.fuzz", area, "--inside"]
    command += [f"--{name}={value}" for name, value in options.items()]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=given.seconds + PATIENCE, check=False)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(), "a time limit"
    numbers = [line for line in output.splitlines() if line.isdigit()]
    last = numbers[-1] if numbers else "none"
    print(f"{area}: {len(numbers)} cases, {'passed' if code == 0 else f'ended by {code}'}", flush=True)
    if code != 0:
        print(f"  again: python -m tests.fuzz {area} --seed {given.seed} --first {last} --cases 1", flush=True)
    return code == 0


def _work(area: str, seed: int, first: int, cases: int, seconds: float) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    case = case_of(area)
    end = None
    for number in range(first, first + cases):
        print(number, flush=True)
        try:
            case(random.Random(f"{seed} {area} {number}"))
        except VitalrankError as error:
            if "\n" in str(error):
                print(f"more than one line: {error}", file=sys.stderr)
                return 1
        except BaseException:
            traceback.print_exc()
            return 1
        end = end or time.monotonic() + seconds  # the first case compiles
        if time.monotonic() >= end:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
