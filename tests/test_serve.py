"""The HTTP server: answers are the library's, refusals are one sentence with a 4xx, reloads drop nothing."""

import asyncio
import gc
import json
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

import browser
import vitalrank as vr

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient
from uvicorn import Config
from uvicorn.server import ServerState

from vitalrank.checkpoint import generation
from vitalrank.serving import ItemTable
from vitalrank.serving.web import protocol, running
from vitalrank.serving.web.app import make_app
from vitalrank.serving.web.batching import Batcher
from vitalrank.serving.web.limits import Limits, ServerSettings
from vitalrank.serving.web.metrics import Metrics
from vitalrank.serving.web.reloading import Reloader
from vitalrank.serving.web.snapshot import Snapshot

EVIL = "<img src=x onerror=document.title=1>"


@pytest.fixture(scope="module")
def model():
    made = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    items = [EVIL if i == 0 else f"i{i}" for i in made.items]
    return vr.MF(dim=8).fit(
        vr.Interactions.from_arrays(made.user_ids[made.users], items), vr.Uniform(), epochs=2, seed=0
    )


@pytest.fixture(scope="module")
def table(model):
    ids = model.train.item_ids.tolist()
    return ItemTable(
        ids, {"name": [f"Name of {one}" for one in ids], "genre": ["ab"[k % 2] for k in range(50)]}, "name"
    )


def app_of(model, table=None, **settings):
    snapshot = Snapshot(model, {}, table)
    return make_app(Reloader(lambda: snapshot, lambda: 0, Metrics()), ServerSettings(**settings))


@pytest.fixture(scope="module")
def client(model, table):
    with TestClient(app_of(model, table)) as found:
        yield found


def items_of(answer):
    return [entry["item"] for entry in answer["items"]]


def test_answers_are_those_of_the_library(client, model):
    user = int(model.train.user_ids[3])
    ids, scores = model.recommend(user, n=5)
    answer = client.get(f"/recommend?user={user}&n=5").json()
    assert items_of(answer) == ids.tolist()
    assert [entry["score"] for entry in answer["items"]] == pytest.approx(scores.tolist())
    assert answer["items"][0]["name"] == f"Name of {ids[0]}"
    assert items_of(client.get(f"/similar?item={ids[0]}&n=4").json()) == model.similar_items(ids[0], n=4)[0].tolist()
    folded = client.post("/fold-in", json={"history": [ids[0], "new"], "n": 3}).json()
    assert folded["unknown"] == ["new"]
    assert items_of(folded) == model.fold_in([ids[0]], n=3)[0].tolist()
    why = client.post("/explain", json={"user": user, "item": ids[0]}).json()
    assert sum(entry["contribution"] for entry in why["because"]) + why["rest"] == pytest.approx(why["score"])
    assert client.get(f"/history?user={user}&n=1").json()["items"][0]["item"] in model.train.item_ids
    assert client.get("/items?q=NAME OF I1").json()["items"]
    assert client.get("/users?q=1").json()["users"]


def test_filters_are_those_of_the_library(client, model, table):
    users = model.train.user_ids[:3].tolist()
    allowed, blocked = model.train.item_ids[10:40].tolist(), model.train.item_ids[12:20].tolist()
    filters = {"items": allowed, "exclude_items": blocked, "within": {"genre": "b"}, "seen": True}
    fields = {"users": users, "n": 4, **filters}
    found = client.post("/recommend", json=fields).json()["results"]
    ids, _ = model.recommend(users, n=4, table=table, **filters)
    assert [items_of(one) for one in found] == ids.tolist()
    own = [[one] for one in ids[:, 0].tolist()[:2]] + [[]]
    found = client.post("/recommend", json={**fields, "per_user_exclude": own}).json()["results"]
    assert [items_of(one) for one in found] == model.recommend(
        users, n=4, table=table, per_user_exclude=own, **filters
    )[0].tolist()
    item = model.train.item_ids[4]
    found = client.post("/similar", json={"item": item, "n": 4, "within": "genre"}).json()
    assert items_of(found) == model.similar_items(item, n=4, within="genre", table=table)[0].tolist()


def test_concurrent_requests_share_ranking_calls_and_get_their_own_answers(client, model):
    users = model.train.user_ids.tolist()
    answers = {}

    def ask(user):
        answers[user] = items_of(client.get(f"/recommend?user={user}&n={user % 5 + 1}").json())

    threads = [threading.Thread(target=ask, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user in users:
        assert answers[user] == model.recommend(user, n=user % 5 + 1)[0].tolist()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/recommend", None, 400),
        ("GET", "/recommend?user=99999999", None, 404),
        ("GET", "/recommend?user=1&n=0", None, 400),
        ("GET", "/recommend?user=1&n=1001", None, 400),
        ("GET", "/recommend?user=1&m=3", None, 400),
        ("GET", "/recommend?user=x", None, 404),
        ("POST", "/recommend", "{", 400),
        ("POST", "/recommend", "[" * 100_000, 400),
        ("POST", "/recommend", '{"user": 1e999}', 400),
        ("POST", "/recommend", '{"user": true}', 400),
        ("POST", "/recommend", '{"user": ' + "9" * 5000 + "}", 400),
        ("POST", "/recommend", '{"user": 99999999999999999999999}', 404),
        ("POST", "/recommend", '{"user": "\\ud800"}', 404),
        ("POST", "/recommend", '{"user": 1, "items": []}', 400),
        ("POST", "/recommend", '{"user": 1, "items": ["none"]}', 400),
        ("POST", "/recommend", '{"user": 1, "within": "nothing"}', 400),
        ("POST", "/recommend", '{"users": [1, 2], "per_user_exclude": [["i1"]]}', 400),
        ("POST", "/recommend", '{"user": 1, "per_user_exclude": ["i1"]}', 400),
        ("POST", "/fold-in", '{"history": [[1]]}', 400),
        ("POST", "/fold-in", json.dumps({"history": ["i1"] * 5001}), 400),
        ("POST", "/fold-in", "x" * 300_000, 413),
        ("GET", "/fold-in", None, 405),
        ("DELETE", "/recommend", None, 405),
        ("GET", "/../../etc/passwd", None, 404),
        ("GET", "/recommend/?user=1", None, 404),
    ],
)
def test_a_bad_request_is_one_sentence(client, method, path, body, status):
    answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert "\n" not in answer.json()["error"]


def test_malformed_requests_never_fail_the_server(client):
    dice = random.Random(0)
    values = [None, True, -1, 0, 10**30, 1.5, "", "i1", "\x00", "\ud800", [], [[]], {}, ["i1"], {"genre": "a"}, EVIL]
    names = [
        "user",
        "users",
        "item",
        "items",
        "n",
        "history",
        "histories",
        "within",
        "seen",
        "unknown",
        "exclude_items",
    ]
    for _ in range(400):
        path = dice.choice(["/recommend", "/similar", "/fold-in", "/explain"])
        fields = {name: dice.choice(values) for name in dice.sample(names, dice.randrange(4))}
        body = json.dumps(fields)
        if dice.random() < 0.2:
            body = body[: dice.randrange(len(body))]
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code < 500, (path, body, answer.text)


def test_a_token_is_asked_for_wherever_the_log_shows(model):
    with TestClient(app_of(model, token="s" * 32)) as client:
        for path in ("/recommend?user=1", "/metrics", "/users"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/metrics", headers={"authorization": "Bearer " + "s" * 32}).status_code == 200
        assert client.get("/health").status_code == 200


def test_other_host_names_are_refused(model):
    with TestClient(app_of(model, hosts=running.hosts_of("127.0.0.1", None))) as client:
        assert client.get("/health").status_code == 421
        for host in ("127.0.0.1:8000", "localhost", "[::1]:80"):
            assert client.get("/health", headers={"host": host}).status_code == 200


def test_other_machines_are_served_with_a_token_alone(tmp_path):
    with pytest.raises(vr.SettingError, match="give --token-file"):
        running.check_open("0.0.0.0", None)
    file = tmp_path / "token"
    file.write_text("t" * 32)
    file.chmod(0o644)
    with pytest.raises(vr.SettingError, match="chmod 600"):
        running.read_token(file)
    file.chmod(0o600)
    running.check_open("0.0.0.0", running.read_token(file))
    file.write_text("short")
    with pytest.raises(vr.SettingError, match="one word of 16"):
        running.read_token(file)


def test_too_many_at_once_are_told_to_wait(model):
    app = app_of(model, limits=Limits(concurrent=1))
    with TestClient(app) as client:
        app._metrics.in_flight = 1
        answer = client.get("/recommend?user=1")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert client.get("/health").status_code == 200


def test_a_replaced_run_is_loaded_and_a_broken_one_is_not(model, tmp_path):
    folder = tmp_path / "run"
    vr.MostPopular().fit(model.train).save(folder)

    def load():
        found = vr.load(folder)
        return Snapshot(found, found.held_out)

    reloader = Reloader(load, lambda: generation(folder), Metrics())
    assert not reloader.look()
    model.save(folder)
    assert reloader.look()
    assert type(reloader.current.model).__name__ == "MF"
    (folder / "model.json").write_text("{")
    assert not reloader.look()
    assert reloader.metrics.failed_reloads == 1
    assert reloader.current.recommend_many([]) == []


def test_the_description_names_every_path(client):
    paths = client.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            assert client.request(method, path).status_code not in (404, 405), path
    page = client.get("/docs").text
    assert all(path in page for path in paths)
    text = client.get("/metrics").text
    assert 'vitalrank_requests_total{path="/openapi.json",status="200"} 1' in text


@pytest.fixture(scope="module")
def server(model, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    model.save(folder / "run")
    rows = zip(table.ids, table.columns["name"], strict=True)
    (folder / "items.tsv").write_text("item\tname\n" + "".join(f"{one}\t{name}\n" for one, name in rows))
    command = [
        sys.executable,
        "-m",
        "vitalrank",
        "serve",
        folder / "run",
        "--names",
        folder / "items.tsv",
        "--port",
        "0",
    ]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().split(" on ")[1].split(",")[0]
    yield address, folder, process
    process.terminate()
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a" * 65536),
        (b"GET /health?", b"a" * 65536),
        (b"POST /fold-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n", b"a" * 65536),
        (b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000),
    ],
    ids=["header", "address", "body", "pipelined"],
)
def test_a_request_without_an_end_is_cut_off(server, begin, more):
    """Before there is a request to refuse, a caller could fill the memory."""
    address, port = server[0].removeprefix("http://").split(":")
    cut = pytest.raises((ConnectionError, TimeoutError))
    with socket.create_connection((address, int(port)), timeout=20) as caller, cut:
        caller.sendall(begin + 2000 * more)


def test_a_request_that_does_not_arrive_is_cut_off_and_a_slow_answer_is_not(monkeypatch):
    monkeypatch.setattr(protocol, "_SECONDS", 0.1)

    async def slow(scope, receive, send):
        await asyncio.sleep(0.4)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def converse():
        server = await asyncio.get_running_loop().create_server(
            lambda: protocol.BoundedProtocol(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
        )
        address = server.sockets[0].getsockname()
        found = []
        for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(sent)
            found.append(await asyncio.wait_for(reader.read(100), 20))
            writer.close()
        server.close()
        return found

    config = Config(slow, lifespan="off", log_level="error")
    silent, partial, whole = asyncio.run(converse())
    assert (silent, partial) == (b"", b"")
    assert whole.startswith(b"HTTP/1.1 200")


def test_a_reload_under_load_drops_no_request(server, model):
    address, folder, _ = server
    statuses, done = [], threading.Event()

    def ask():
        while not done.is_set():
            with urllib.request.urlopen(f"{address}/recommend?user=1&n=3", timeout=20) as answer:
                statuses.append(answer.status)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    model.save(folder / "run")
    until = time.monotonic() + 30
    reloads = 0
    while not reloads and time.monotonic() < until:
        time.sleep(0.1)
        with urllib.request.urlopen(f"{address}/health", timeout=20) as answer:
            reloads = json.load(answer)["reloads"]
    done.set()
    for thread in threads:
        thread.join()
    assert reloads == 1
    assert set(statuses) == {200}


def test_what_is_loaded_before_serving_is_no_work_for_the_garbage_collector(monkeypatch):
    frozen = []
    monkeypatch.setattr(running._Server, "run", lambda self, sockets: frozen.append(gc.get_freeze_count()))
    with socket.socket() as listening:
        running.run_server(None, listening, lambda: None)
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0


def test_a_batch_that_fails_is_told_to_each_caller():
    def fail(requests):
        raise ValueError(f"{len(requests)} requests")

    async def ask():
        batcher = Batcher(fail, window=0.05)
        task = asyncio.create_task(batcher.run())
        found = await asyncio.gather(*(batcher.submit(number) for number in range(3)), return_exceptions=True)
        task.cancel()
        return found

    assert [str(error) for error in asyncio.run(ask())] == ["3 requests"] * 3


def test_requests_that_wait_during_a_ranking_are_the_next_batch():
    begun, sizes = threading.Event(), []

    def answer(requests):
        sizes.append(len(requests))
        begun.set()
        time.sleep(0.2 if len(sizes) == 1 else 0)
        return [2 * request for request in requests]

    async def ask():
        batcher = Batcher(answer, window=0, most=4)
        task = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.submit(0))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        found = await asyncio.gather(first, *(batcher.submit(number) for number in range(1, 7)))
        task.cancel()
        return found

    assert asyncio.run(ask()) == [0, 2, 4, 6, 8, 10, 12]
    assert sizes == [1, 4, 2]


def test_a_port_that_is_taken_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(vr.SettingError, match="cannot listen on"):
            running.listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.skipif(browser.find() is None, reason="no browser")
@pytest.mark.parametrize("size", [(1200, 900), (390, 800)])
def test_the_page_shows_lists_as_text_in_a_browser(server, tmp_path, size):
    address = server[0]
    done = browser.run(
        tmp_path,
        f"--window-size={size[0]},{size[1]}",
        "--virtual-time-budget=10000",
        "--dump-dom",
        address + "/?user=1",
    )
    assert 'data-ready="yes"' in done.stdout
    assert done.stdout.count("<li>") > 20
    assert "<img" not in done.stdout
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
