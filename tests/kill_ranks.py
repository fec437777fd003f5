"""Ranks that are killed at random moments: does every run recover by itself and end with the bits of one process?

``python tests/kill_ranks.py --kills 20`` starts ``vitalrank fit --ranks 3`` and sends SIGKILL to a random rank at
random moments, several times a run, until so many were killed; every third time two ranks at once.
``--hosts 2`` does it with two machines: network namespaces joined by a pair of virtual interfaces, ``torchrun`` in
each (as root, with iproute2). After each run its tensors are compared, bit for bit, with those of one process.
The results are added to ``benchmarks/kill_ranks.jsonl``, one line a run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import vitalrank as vr

OUT = Path(__file__).parents[1] / "benchmarks" / "kill_ranks.jsonl"
MARK = "VITALRANK_KILL_RUN"  # in the environment of all processes of a run
FIT = ("--epochs", "40", "--checkpoint-epochs", "1", "--threads", "1", "--set", "dim=16", "--batch", "512")
LONGEST = 900.0  # seconds of a run: longer, and it hangs
HOSTS = {"a": "10.31.0.1", "b": "10.31.0.2"}
RESTARTS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def write_log(folder: Path) -> Path:
    """A log whose training takes long enough to be hit, on ranks that share two cores."""
    log = vr.datasets.synthetic(users=600, items=400, interactions=12_000, seed=0)
    path = folder / "log.tsv"
    rows = zip(log.user_ids[log.users], log.item_ids[log.items], range(len(log)), strict=True)
    path.write_text("user\titem\ttime\n" + "".join(f"u{u}\ti{i}\t{t}\n" for u, i, t in rows))
    return path


def digest(run: Path) -> str:
    """Of all arrays of a run: vectors, moments, log; and of its history without seconds."""
    records = json.loads((run / "model.json").read_text())["training"]["records"]
    history = [{name: value for name, value in record.items() if name != "seconds"} for record in records]
    tensors = (run / "tensors.safetensors").read_bytes()
    return hashlib.sha256(tensors + json.dumps(history).encode()).hexdigest()


def ranks_of(run: str) -> dict[int, int]:
    """Process of each rank that is alive, of those with this mark."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            variables = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item)
            if variables.get(MARK) == run and "TORCHELASTIC_RUN_ID" in variables:
                found[int(variables["RANK"])] = int(entry.name)
    return found


class Run:
    """One training that is killed again and again."""

    def __init__(self, log: Path, out: Path, hosts: int, ranks: int, seed: int) -> None:
        self._log, self._out, self._hosts, self._ranks = log, out, hosts, ranks
        self._random = random.Random(seed)
        self._name = f"{os.getpid()}-{seed}"
        self.kills: list[dict[str, Any]] = []

    def go(self, kills: int) -> dict[str, Any]:
        """Start it, kill so many ranks, wait for its end."""
        began = time.monotonic()
        processes = [self._start(command) for command in self._commands()]
        try:
            while all(process.poll() is None for process in processes) and len(self.kills) < kills:
                self._kill_soon(processes, kills - len(self.kills), began)
            codes = [process.wait(timeout=LONGEST) for process in processes]
        except subprocess.TimeoutExpired:
            codes = ["hangs"]
        finally:
            for process in processes:
                process.kill()
            for pid in ranks_of(self._name).values():
                os.kill(pid, signal.SIGKILL)
        told = [process.communicate()[1][-1500:] for process in processes] if any(codes) else []
        return {"codes": codes, "kills": self.kills, "seconds": round(time.monotonic() - began, 1), "told": told}

    def _kill_soon(self, processes: list[Any], left: int, began: float) -> None:
        """Wait until all ranks live, then a random time, and kill one or two of them."""
        end = time.monotonic() + 120.0
        while len(found := ranks_of(self._name)) < self._ranks * self._hosts:
            if time.monotonic() > end or any(process.poll() is not None for process in processes):
                return
            time.sleep(0.05)
        if self._random.random() < 0.5:  # while they start, read, join
            time.sleep(self._random.uniform(0.0, 10.0))
        else:  # while they train and write
            self._await_an_epoch(processes)
            time.sleep(self._random.uniform(0.0, 2.0))
        if any(process.poll() is not None for process in processes):
            return
        found = ranks_of(self._name)
        number = min(left, 2 if len(self.kills) % 3 == 2 else 1)
        for rank in self._random.sample(sorted(found), min(number, len(found))):
            with suppress(ProcessLookupError):
                os.kill(found[rank], signal.SIGKILL)
                epoch = self._epoch()
                self.kills.append({"rank": rank, "after": round(time.monotonic() - began, 2), "saved_epoch": epoch})
        time.sleep(1.0)

    def _await_an_epoch(self, processes: list[Any]) -> None:
        before, end = self._epoch(), time.monotonic() + 120.0
        while self._epoch() == before and time.monotonic() < end:
            if any(process.poll() is not None for process in processes):
                return
            time.sleep(0.05)

    def _epoch(self) -> int:
        try:
            return int(json.loads((self._out / "model.json").read_text())["training"]["epoch"])
        except (OSError, ValueError):
            return 0

    def _commands(self) -> Iterator[tuple[list[str], dict[str, str]]]:
        fit = ["-m", "vitalrank", "fit", str(self._log), "--out", str(self._out), *FIT]
        if self._hosts == 1:
            yield [sys.executable, *fit, "--ranks", str(self._ranks)], {}
            return
        for name, address in HOSTS.items():
            first = name == "a"
            yield [
                *("ip", "netns", "exec", f"vitalrank-{name}", sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes", "2", "--nproc-per-node", str(self._ranks), "--rdzv-backend", "c10d"),
                *("--rdzv-endpoint", f"{HOSTS['a']}:29400", "--rdzv-conf", f"is_host={int(first)}"),
                *("--local-addr", address, "--max-restarts", "30", "--rdzv-id", self._name),
                *(*fit, "--resume"),
            ], {"GLOO_SOCKET_IFNAME": f"vitalrank-{name}", **RESTARTS}  # fmt: skip

    def _start(self, command: tuple[list[str], dict[str, str]]) -> subprocess.Popen[str]:
        words, variables = command
        environment = {**os.environ, **variables, MARK: self._name, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )


@contextmanager
def namespaces() -> Iterator[None]:
    """Two machines as network namespaces, joined by a pair of interfaces."""
    run = ["ip"]
    commands = [f"netns add vitalrank-{name}" for name in HOSTS]
    commands += ["link add vitalrank-a netns vitalrank-a type veth peer name vitalrank-b netns vitalrank-b"]
    for name, address in HOSTS.items():
        commands += [
            f"-n vitalrank-{name} addr add {address}/24 dev vitalrank-{name}",
            f"-n vitalrank-{name} link set vitalrank-{name} up",
            f"-n vitalrank-{name} link set lo up",
        ]
    try:
        for command in commands:
            subprocess.run([*run, *command.split()], check=True)
        yield
    finally:
        for name in HOSTS:
            subprocess.run([*run, "netns", "del", f"vitalrank-{name}"], check=False)


def main() -> None:
    """Kill ranks, compare, save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--each", type=int, default=4, help="kills a run")
    parser.add_argument("--ranks", type=int, default=3, help="of each host")
    parser.add_argument("--hosts", type=int, choices=(1, 2), default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    done, number = 0, given.seed
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write_log(folder)
        alone = [sys.executable, "-m", "vitalrank", "fit", str(log), "--out", str(folder / "alone"), *FIT]
        subprocess.run(alone, check=True, stdout=subprocess.DEVNULL)
        expected = digest(folder / "alone")
        while done < given.kills:
            out = folder / f"run-{number}"
            with namespaces() if given.hosts == 2 else nullcontext():
                found = Run(log, out, given.hosts, given.ranks, number).go(min(given.each, given.kills - done))
            same = not any(found["codes"]) and digest(out) == expected
            line = {"hosts": given.hosts, "ranks": given.ranks * given.hosts, "same_bits": same, **found}
            with OUT.open("a") as file:
                file.write(json.dumps({"date": time.strftime("%Y-%m-%d"), **line}) + "\n")
            print(json.dumps(line), flush=True)
            done, number = done + len(found["kills"]), number + 1


if __name__ == "__main__":
    main()
