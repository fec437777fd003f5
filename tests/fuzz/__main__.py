"""Run areas, each in a process of its own with bounded memory, so that a crash of the interpreter is seen.

``python -m tests.fuzz [AREA ...] [--seconds S] [--cases N] [--seed K] [--first I]``: a case is a function of seed and
number alone. A table says how many cases ran and failed in each area, and how to run those that failed again. On a
machine that is busy with something else, FUZZ_PATIENCE gives a case more than its 300 seconds.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field

from tests.fuzz import PATIENCE, areas, case_of

from vitalrank.errors import VitalrankError

MEMORY = 12 << 30  # bytes of address space: torch and Numba's threads take some of it
_MOST, _SHOWN = 20, 3000  # failures of an area before it ends, characters of each that are printed


def main() -> int:
    given = _arguments()
    if given.inside:
        return _work(given.areas[0], given.seed, given.first, given.cases, given.seconds)
    names = given.areas or areas()
    print(f"{'area':<12}{'cases':>10}{'seconds':>10}{'failures':>10}", flush=True)
    found = [_run(area, given) for area in names]
    return 1 if any(tally.failed for tally in found) else 0


@dataclass
class Tally:
    """What the cases of an area came to."""

    area: str
    cases: int = 0
    seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)  # number of a case -> how it ended

    def __str__(self) -> str:
        return f"{self.area:<12}{self.cases:>10,}{self.seconds:>10,.0f}{len(self.failed):>10}"

    def add_failure(self, number: int, how: str, seed: int) -> None:
        """Note a case that failed, and say at once how to run it again."""
        self.failed[number] = how
        again = f"python -m tests.fuzz {self.area} --seed {seed} --first {number} --cases 1"
        print(f"{how}\n  again: {again}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("areas", nargs="*", choices=[*areas(), []], help="all by default")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "5")), help="per area")
    parser.add_argument("--cases", type=int, default=1_000_000_000, help="at most so many per area")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(area: str, given: argparse.Namespace) -> Tally:
    """Run an area in processes of its own: where a case ends one, the next begins behind it."""
    tally, first = Tally(area), given.first
    begin = time.monotonic()
    while (left := given.seconds - tally.seconds) > 0 and tally.cases < given.cases and len(tally.failed) < _MOST:
        options = {"seconds": left, "cases": given.cases - tally.cases, "seed": given.seed, "first": first}
        command = [sys.executable, "-m", "tests.fuzz", area, "--inside"]
        command += [f"--{name}={value}" for name, value in options.items()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left + 2 * PATIENCE, check=False)
            output, said, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            output, said, code = _text(late.stdout), _text(late.stderr), "a time limit"
        numbers = [int(line) for line in output.splitlines() if line.isdigit()]
        tally.cases += len(numbers)
        tally.seconds = time.monotonic() - begin
        if code == 0:
            break
        last = numbers[-1] if numbers else first
        tally.add_failure(last, f"{said[-_SHOWN:]}\n{area}: case {last} ended by {code}", given.seed)
        first = last + 1
    print(tally, flush=True)
    return tally


def _text(output: bytes | str | None) -> str:
    """What a process that was stopped had written."""
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _work(area: str, seed: int, first: int, cases: int, seconds: float) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    case = case_of(area)
    end = None
    for number in range(first, first + cases):
        print(number, flush=True)
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        try:
            case(random.Random(f"{seed} {area} {number}"))
        except VitalrankError as error:
            if "\n" in str(error):
                print(f"more than one line: {error}", file=sys.stderr)
                return 1
        except BaseException:
            traceback.print_exc()
            return 1
        faulthandler.cancel_dump_traceback_later()
        end = end or time.monotonic() + seconds  # the first case compiles
        if time.monotonic() >= end:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
