"""The server under load, beside a plain handler: requests a second, latencies, reloads, malformed requests.

    python benchmarks/serve.py              three turns of ten seconds for each server, then reloads
    python benchmarks/serve.py --long       ten minutes of load with a reload every minute

Needs wrk (Debian: apt-get install wrk), starlette, uvicorn and implicit. All on this machine, by loopback. 100,000
items, 50,000 users, dim 64, lists of 10. The peer has the same vectors in ``implicit`` behind a plain Starlette
handler with uvicorn, one call of ``recommend`` for each request. A third server gives everybody the same bytes: what
is left of its latencies is the machine's and wrk's, which on a busy host is most. Results go to serve.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import _common

import vitalrank as vr

ITEMS, USERS, ROWS, DIM = 100_000, 50_000, 1_500_000, 64
FUZZED = 10_000
LUA = """
local users = {}
for line in io.lines(os.getenv("USERS_FILE")) do users[#users + 1] = line end
math.randomseed(os.time())
request = function()
  return wrk.format("GET", "/recommend?n=10&user=" .. users[math.random(#users)])
end
"""
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
_STARTUP = 300.0  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--peer", nargs=2, metavar=("RUN", "PORT"), help=argparse.SUPPRESS)
    parser.add_argument("--bare", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        serve_implicit(Path(given.peer[0]), int(given.peer[1]))
        return
    if given.bare:
        serve_nothing(given.bare)
        return
    seconds, every = (600, 60) if given.long else (30, 10)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = make_model()
        model.save(folder / "run")
        (folder / "ask.lua").write_text(LUA)
        (folder / "users").write_text("\n".join(map(str, model.train.user_ids.tolist())))
        result: dict[str, Any] = {"load_before": os.getloadavg()[0], "connections": given.connections}
        python, run = sys.executable, str(folder / "run")
        commands = {
            "vitalrank": [python, "-m", "vitalrank", "serve", run, "--port", "8377"],
            "implicit behind a plain handler": [python, __file__, "--peer", run, "8378"],
            "a handler that does nothing": [python, __file__, "--bare", "8379"],
        }
        with ExitStack() as stack:
            servers = {
                name: (stack.enter_context(running(command, port)), port)
                for port, (name, command) in enumerate(commands.items(), 8377)
            }
            result |= in_turns(folder, servers, given.turns, given.connections)
            server = servers["vitalrank"][0]
            result["reloading"] = reload_under_load(model, folder, server, seconds, every, given.connections)
            print("reloading", result["reloading"], flush=True)
            result["malformed"] = fuzz(8377, FUZZED)
            print("malformed", result["malformed"], flush=True)
        result["load_after"] = os.getloadavg()[0]
    _common.save("serve", result)


def make_model() -> vr.MF:
    """A model of that size; an epoch makes its vectors differ."""
    log = vr.datasets.synthetic(users=USERS, items=ITEMS, interactions=ROWS, seed=0)
    return vr.MF(dim=DIM).fit(log, vr.Uniform(), epochs=1, seed=0)


@contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from its first answer until it has stopped."""
    # implicit asks for BLAS with one thread
    process = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"})
    try:
        until = time.monotonic() + _STARTUP
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                connection.getresponse().read()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"no server on port {port}") from None
                time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        code = process.wait(60)
        print(f"stopped with {code}", flush=True)


def load(folder: Path, port: int, seconds: int, connections: int) -> dict[str, Any]:
    """What wrk measures: requests a second, latencies in milliseconds, errors."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is missing: apt-get install wrk")
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "--latency"]
    done = subprocess.run(
        [*command, "-s", str(folder / "ask.lua"), f"http://127.0.0.1:{port}"],
        capture_output=True, text=True, check=True, env={**os.environ, "USERS_FILE": str(folder / "users")},
    )  # fmt: skip
    return parse(done.stdout)


def in_turns(
    folder: Path, servers: dict[str, tuple[subprocess.Popen[bytes], int]], turns: int, connections: int
) -> dict[str, Any]:
    """Each server in turn, again and again; all turns, and of each server the one of the lowest p99."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for _, port in servers.values():
        load(folder, port, 5, connections)
    for _ in range(turns):
        for name, (server, port) in servers.items():
            found[name].append({**timed_load(folder, port, server, connections), "load": os.getloadavg()[0]})
            print(name, found[name][-1], flush=True)
    return {name: {"best": min(ones, key=lambda one: one["p99_ms"]), "turns": ones} for name, ones in found.items()}


def timed_load(folder: Path, port: int, server: subprocess.Popen[bytes], connections: int) -> dict[str, Any]:
    """Ten seconds of load, with the server's own processor time for a request, which other work does not change."""
    before = cpu_seconds(server.pid)
    measured = load(folder, port, 10, connections)
    spent = cpu_seconds(server.pid) - before
    return {**measured, "cpu_ms_per_request": round(1e3 * spent / max(1, measured["requests"]), 3)}


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parse(text: str) -> dict[str, Any]:
    """The numbers in wrk's output.

    Examples
    --------
    >>> parse("50%  10.00ms\\n99%  1.50s\\n 7 requests in\\nRequests/sec:  3.5")["p99_ms"]
    1500.0
    """
    latencies = {f"p{share}_ms": float(value) * _UNITS[unit] for share, value, unit in
                 re.findall(r"(50|90|99)%\s+([\d.]+)(us|ms|s|m)\b", text)}  # fmt: skip
    sockets = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    requests, rate = re.search(r"(\d+) requests in", text), re.search(r"Requests/sec:\s+([\d.]+)", text)
    return {
        "per_second": float(rate[1]) if rate else 0.0,
        **latencies,
        "requests": int(requests[1]) if requests else 0,
        "errors": sum(map(int, sockets.groups())) if sockets else 0,
        "not_2xx": int(bad[1]) if bad else 0,
    }


def reload_under_load(
    model: vr.MF, folder: Path, server: subprocess.Popen[bytes], seconds: int, every: int, connections: int
) -> dict[str, Any]:
    """Load while the run folder is replaced again and again; the memory after each reload."""
    memory = [resident(server.pid)]
    with ThreadPoolExecutor(1) as thread:
        wrk = thread.submit(load, folder, 8377, seconds, connections)
        while not wrk.done():
            time.sleep(every)
            if not wrk.done():
                model.save(folder / "run")
                memory.append(resident(server.pid))
        measured = wrk.result()
    connection = http.client.HTTPConnection("127.0.0.1", 8377)
    connection.request("GET", "/health")
    reloads = json.loads(connection.getresponse().read())["reloads"]
    return {**measured, "reloads": reloads, "resident_mb": [*memory, resident(server.pid)]}


def resident(pid: int) -> int:
    """Megabytes of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1024 if found else 0


def fuzz(port: int, count: int) -> dict[str, int]:
    """How often each status answered malformed requests; a connection that the server closed is counted as such."""
    dice = random.Random(0)
    values = [
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        1e308,
        "",
        "x" * 300,
        "\x00",
        "\ud800",
        [],
        [[]],
        {},
        [1, "a"],
        {"a": [1]},
    ]
    names = ["user", "users", "item", "items", "n", "history", "histories", "within", "seen", "exclude_items"]
    paths = ["/recommend", "/similar", "/fold-in", "/explain", "/history", "/items", "/users", "/%00", "/..%2f..", "//"]
    found: Counter[str] = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(count):
        body = json.dumps({name: dice.choice(values) for name in dice.sample(names, dice.randrange(5))}).encode()
        damage = dice.random()
        if damage < 0.3:
            body = body[: dice.randrange(len(body))]
        elif damage < 0.5:
            body = bytes(dice.randrange(256) for _ in range(dice.randrange(200)))
        elif damage < 0.51:
            body = b"[" * dice.randrange(1, 400_000)
        path = dice.choice(paths) + dice.choice(["", "", "?n=x", "?user=%ff", "?user=1&user=2", "?" + "a=1&" * 50])
        headers = {"content-type": dice.choice(["application/json", "application/json", "text/plain", "\x7f"])}
        try:
            connection.request(dice.choice(["POST", "POST", "GET", "PUT", "BREW"]), path, body, headers)
            answer = connection.getresponse()
            answer.read()
            found[str(answer.status)] += 1
        except (OSError, http.client.HTTPException):
            found["closed"] += 1
            connection.close()
    return dict(found)


def serve_implicit(run: Path, port: int) -> None:
    """The peer: implicit's recommend on the same vectors, behind a handler as one would write it."""
    import numpy as np
    import uvicorn
    from implicit.cpu.als import AlternatingLeastSquares
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    model = vr.load(run)
    peer = AlternatingLeastSquares(factors=DIM)
    peer.user_factors = model.queries(np.arange(model.train.n_users))
    peer.item_factors = model.item_table
    seen, ids = model.train.csr, model.train.item_ids
    places = {one: place for place, one in enumerate(model.train.user_ids.tolist())}

    def recommend(request: Request) -> JSONResponse:
        user = places[int(request.query_params["user"])]
        found, scores = peer.recommend(user, seen[user], N=int(request.query_params["n"]))
        pairs = zip(ids[found].tolist(), scores.tolist(), strict=True)
        return JSONResponse({"items": [{"item": item, "score": score} for item, score in pairs]})

    app = Starlette(routes=[Route("/recommend", recommend), Route("/health", lambda request: JSONResponse({}))])
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


def serve_nothing(port: int) -> None:
    """What a handler without any work takes: an answer as long as the others', made once."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    answer = JSONResponse({"items": [{"item": 10**4 + place, "score": 1 / (place + 3)} for place in range(10)]}).body

    async def handle(request: Request) -> Response:
        return Response(answer, media_type="application/json")

    app = Starlette(routes=[Route("/recommend", handle), Route("/health", handle)])
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
