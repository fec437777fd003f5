"""The synthetic log and the known data sets."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import vitalrank as vr
from vitalrank import datasets
from vitalrank.cli import data as cli_data
from vitalrank.datasets import known as catalogue


@pytest.fixture(scope="module")
def log() -> vr.Interactions:
    return datasets.synthetic()


def test_the_synthetic_log_has_exactly_the_size_asked_for(log: vr.Interactions) -> None:
    assert (log.n_users, log.n_items, len(log), log.repeats) == (2000, 1500, 60_000, 0)


@pytest.mark.parametrize("size", [(3, 3, 3), (10, 10, 50), (5, 400, 900), (400, 5, 900)])
@pytest.mark.parametrize("sequence", [0.0, 0.7])
def test_small_and_lopsided_sizes_work(size: tuple[int, int, int], sequence: float) -> None:
    made = datasets.synthetic(*size, sequence=sequence)
    assert (made.n_users, made.n_items, len(made)) == size


@pytest.mark.parametrize(
    "wrong", [{"users": 0}, {"interactions": 100}, {"interactions": 3_000_000}, {"sequence": 1.5}, {"sequence": -1}]
)
def test_sizes_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(vr.SettingError, match="synthetic"):
        datasets.synthetic(**wrong)


def test_the_seed_decides(log: vr.Interactions) -> None:
    assert datasets.synthetic().fingerprint == log.fingerprint
    assert datasets.synthetic(seed=1).fingerprint != log.fingerprint


def test_degrees_have_long_tails(log: vr.Interactions) -> None:
    for degree in (log.user_degree, log.item_degree):
        assert degree.max() > 8 * np.median(degree)
    assert 0.4 < log.statistics.item_gini < 0.85


def test_tastes_are_planted(log: vr.Interactions) -> None:
    """The items of a user go together more than chance allows: neighbours of the history beat popularity."""
    train, test = log.split_last(0.2)
    seen = train.csr.toarray() > 0
    similar = (train.csr.T @ train.csr).toarray()
    norm = np.sqrt(np.maximum(train.item_degree, 1))
    by_taste = np.where(seen, -np.inf, train.csr @ (similar / norm[:, None] / norm))
    by_degree = np.where(seen, -np.inf, train.item_degree.astype(float))

    def hits(scores: np.ndarray) -> float:
        top = np.argpartition(-scores, 20)[:, :20]
        return float(np.take_along_axis(test.csr.toarray(), top, 1).sum())

    assert hits(by_taste) > 1.3 * hits(by_degree)


def test_popularity_drifts(log: vr.Interactions) -> None:
    """Half of the log says more about itself than about the other half."""
    assert log.times is not None
    middle = np.median(log.times)
    by_chance = np.random.default_rng(0).random(len(log)) < 0.5

    def agreement(half: np.ndarray) -> float:
        one, other = (np.bincount(log.items[side], minlength=log.n_items) for side in (half, ~half))
        return float(np.corrcoef(one, other)[0, 1])

    assert agreement(log.times < middle) < agreement(by_chance) - 0.02


def test_sequences_can_be_planted(log: vr.Interactions) -> None:
    def most_common_next(made: vr.Interactions) -> float:
        """Share of steps that go to the commonest successor of the item before, items with 50 steps or more."""
        inside = made.users[1:] == made.users[:-1]
        steps = np.zeros((made.n_items, made.n_items))
        np.add.at(steps, (made.items[:-1][inside], made.items[1:][inside]), 1)
        busy = steps.sum(1) >= 50
        return float(steps[busy].max(1).sum() / steps[busy].sum())

    planted = datasets.synthetic(sequence=0.5)
    assert (len(planted), planted.repeats) == (60_000, 0)
    assert most_common_next(planted) > most_common_next(log) + 0.2


def test_every_known_data_set_says_where_and_on_what_terms() -> None:
    for dataset in datasets.catalogue():
        assert dataset.about
        assert dataset.terms
        assert dataset.url is None or dataset.url.startswith("https://")
    with pytest.raises(vr.SettingError, match="No data set 'nope'; known are ml-100k"):
        datasets.get("nope")
    with pytest.raises(vr.DataError, match="accept them at"):
        datasets.get("yelp")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The catalogue's ml-100k, as if the server had it: a zip archive with four ratings."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        rows = ("1\t10\t5\t900000001", "1\t11\t5\t900000002", "2\t10\t3\t900000003", "2\t10\t3\t900000004")
        archive.writestr("ml-100k/u.data", "\n".join(rows))
        archive.writestr("ml-100k/README", "no")

    def fake(url: str, target: Path, sha256: str | None, progress: Any) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(packed.getvalue())
        progress(10, 10)
        return target

    monkeypatch.setattr(datasets, "download", fake)
    return tmp_path / "cache"


def test_a_known_data_set_is_fetched_unpacked_and_read(served: Path) -> None:
    path = datasets.get("ml-100k", cache=served, progress=False)
    assert path == served / "ml-100k" / "u.data"
    assert len(datasets.load("ml-100k", cache=served)) == 3
    assert sorted(file.name for file in path.parent.iterdir()) == ["ml-100k.zip", "u.data"]


def test_an_archive_without_the_log_is_removed(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = dataclasses.replace(catalogue.DATASETS["ml-100k"], member="ml-100k/other")
    monkeypatch.setitem(catalogue.DATASETS, "ml-100k", changed)
    with pytest.raises(vr.DataError, match="holds no ml-100k/other"):
        datasets.get("ml-100k", cache=served, progress=lambda done, total: None)
    assert not [file for file in served.rglob("*") if file.is_file()]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, 99, "place"])
def test_a_damaged_archive_is_removed(tmp_path: Path, method: int | str) -> None:
    path = tmp_path / "a.zip"
    known = isinstance(method, int) and method != 99
    with zipfile.ZipFile(path, "w", method if known else zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("log", bytes(range(256)) * 50)
    data = bytearray(path.read_bytes())
    if method == "place":  # of the directory: by it the member begins before the file does
        data[-5] += 1
    elif method == 99:  # a method that zipfile does not know, in both headers
        data[8] = 99
        data[data.index(b"PK\x01\x02") + 10] = 99
    else:
        data[45:60] = b"\xff" * 15
    path.write_bytes(data)
    with pytest.raises(vr.DataError, match="is damaged or holds no log"):
        datasets.archives.unpack(path, "log")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_finds_no_room_leaves_nothing_half(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Any) -> Any:
        yield source.read(5)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets.archives, "_chunks", full)
    with pytest.raises(vr.StorageError, match=r"u\.data: cannot be written .*No space left"):
        datasets.get("ml-100k", cache=served, progress=False)
    assert [file.name for file in served.rglob("*") if file.is_file()] == ["ml-100k.zip"]


def test_prepare_writes_a_clean_log(tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("user,item,time\nb,1,3\na,1,2\na,2,1\nb,1,9\nb,2,1\nc,9,1\nbroken\n")
    target = tmp_path / "log.parquet"
    shape = datasets.prepare(raw, target, min_user=2, min_item=2, on_bad="skip")
    assert (shape.users, shape.items, shape.observations, shape.repeats, shape.skipped) == (2, 2, 4, 1, 1)
    log = vr.read(target)
    assert log.fingerprint == vr.read(raw, on_bad="skip").k_core(user=2, item=2).fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet", "raw.csv"]


def test_a_preset_reads_and_filters_a_file_as_the_paper_does(tmp_path: Path) -> None:
    """Yelp's review file: JSON lines with ids of its own names, filtered to the 10-core."""
    core = [
        {"user_id": f"u{u}", "business_id": f"b{b}", "date": f"2019-01-{1 + b:02d}"}
        for u in range(10)
        for b in range(10)
    ]
    rare = {"user_id": "lone", "business_id": "b0", "date": "2019-02-01"}
    raw = tmp_path / "reviews.json"
    raw.write_text("".join(json.dumps(row) + "\n" for row in [*core, rare]))
    shape = datasets.prepare(raw, tmp_path / "yelp.parquet", preset="yelp")
    assert (shape.users, shape.items, shape.observations) == (10, 10, 100)
    with pytest.raises(vr.SettingError, match="No data set 'nope'"):
        datasets.prepare(raw, tmp_path / "nope.parquet", preset="nope")


def test_a_failed_preparation_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, target = tmp_path / "raw.csv", tmp_path / "log.parquet"
    raw.write_text("user,item\n1,2\n")
    datasets.prepare(raw, target)
    before = target.read_bytes()

    def full(writer: Any, table: Any, *given: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(vr.StorageError, match="No space left"):
        datasets.prepare(raw, target)
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet", "raw.csv"]


def test_a_preparation_replaces_a_prepared_log_and_nothing_else(tmp_path: Path) -> None:
    raw, target = tmp_path / "raw.csv", tmp_path / "log.parquet"
    raw.write_text("user,item\n1,2\n")
    for _ in range(2):
        datasets.prepare(raw, target)
    (tmp_path / "link.parquet").symlink_to(target)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").touch()
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "theirs.parquet")
    whole = target.read_bytes()
    for source, place, words in (
        (raw, raw, "also read as input"),
        (target, tmp_path / "link.parquet", "also read as input"),
        (tmp_path / "*.parquet", target, "also read as input"),
        (raw, tmp_path / "notes.txt", "not written by vitalrank"),
        (raw, tmp_path / "theirs.parquet", "not written by vitalrank"),
        (raw, tmp_path, "is a folder"),
    ):
        with pytest.raises(vr.StorageError, match=words):
            datasets.prepare(source, place)
    datasets.prepare(raw, tmp_path / "theirs.parquet", force=True)
    assert (raw.read_text(), target.read_bytes()) == ("user,item\n1,2\n", whole)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    datasets.prepare(raw, tmp_path / "empty")


def test_the_command_line_lists_and_prepares(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(cli_data.data, ["list"])
    assert listed.exit_code == 0
    assert "ml-1m" in listed.stdout
    raw = tmp_path / "raw.tsv"
    raw.write_text("7 b 5 1\n7 c 5 2\n8 b 5 3\n")
    options = ["--user", "0", "--item", "1", "--time", "3", "--no-header"]
    done = runner.invoke(cli_data.data, ["prepare", str(raw), str(tmp_path / "log.parquet"), *options])
    assert done.exit_code == 0, done.exception
    assert "Gini of item degree" in done.stdout
    assert "sparsity" in done.stdout
    log = vr.read(tmp_path / "log.parquet")
    assert (log.user_ids.tolist(), log.item_ids.tolist(), len(log)) == ([7, 8], ["b", "c"], 3)
    wrong = runner.invoke(cli_data.data, ["get", "nope"])
    assert isinstance(wrong.exception, vr.SettingError)


def test_the_command_line_fetches(served: Path) -> None:
    done = CliRunner().invoke(cli_data.data, ["get", "ml-100k", "--cache", str(served)])
    assert done.exit_code == 0, done.exception
    assert "u.data" in done.stdout
