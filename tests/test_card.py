"""Model cards, and models pushed to and loaded from a Hub that is a folder here."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vitalrank as vr
from commands import call, complaint
from vitalrank.errors import SettingError, StorageError

FILES = {"model.json", "tensors.safetensors", "ids.arrow", "README.md"}


@pytest.fixture(scope="module")
def model():
    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    train, valid, test = log.split_last(0.2, valid=0.1)
    made = vr.MF(dim=8).fit(train, vr.VINS(), valid=valid, epochs=3, seed=0, progress=False)
    made.held_out = {"valid": valid, "test": test}
    return made


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The functions of ``huggingface_hub`` that are used, on a folder."""
    root, calls = tmp_path / "hub", []

    def create_repo(repo_id, *, private, exist_ok, token):
        calls.append({"private": private, "token": token})
        (root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(*, repo_id, folder_path, commit_message, token, allow_patterns):
        for file in Path(folder_path).iterdir():
            if file.name in allow_patterns:
                shutil.copy(file, root / repo_id)

    def snapshot_download(repo_id, *, revision, allow_patterns, token):
        calls.append({"revision": revision})
        found = tmp_path / "cache"
        shutil.copytree(root / repo_id, found, ignore=lambda _, names: set(names) - set(allow_patterns))
        return str(found)

    functions = {f.__name__: f for f in (create_repo, upload_folder, snapshot_download)}
    fake = SimpleNamespace(root=root, calls=calls, **functions)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return fake


def test_the_card_tells_data_split_settings_and_figures(model):
    card = model.card()
    assert card.startswith("---\nlibrary_name: vitalrank\n")
    for heading in ("Use", "Data and split", "Settings", "Figures", "Limits"):
        assert f"\n## {heading}\n" in card
    for name, part in {"train": model.train, **model.held_out}.items():
        assert f"| {name} | {len(part):,} | " in card
    assert repr(vr.VINS()) in card
    assert f"| epoch kept | `{model.history.best_epoch}` |" in card
    assert model.train.fingerprint in card
    test, valid = model.held_out["test"], model.held_out["valid"]
    found = vr.evaluate(model, test, at=10, exclude=valid, metrics=["ndcg", "gini"])
    floor = vr.evaluate(vr.MostPopular().fit(model.train), test, at=10, exclude=valid)
    assert f"| ndcg@10 | {found['ndcg@10']:.4f} | {floor['ndcg@10']:.4f} |" in card
    assert f"| gini@10 | {found['gini@10']:.4f} |" in card


def test_the_code_of_the_card_runs(model, tmp_path, monkeypatch):
    model.save(tmp_path / "path/to/this/folder")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", model.card(), re.DOTALL)
    names = {}
    exec(code, names)
    assert names["ids"].shape == (3, 10)


def test_the_times_of_a_log_are_dates_where_they_are_seconds():
    log = vr.Interactions.from_arrays([1, 1], [1, 2], times=[1_600_000_000, 1_600_100_000])
    assert "| train | 2 | 1 | 2 | 2020-09-13 | 2020-09-14 |" in vr.MostPopular().fit(log).card()
    log = vr.Interactions.from_arrays([1, 1], [1, 2], times=[0, 7])
    card = vr.MostPopular().fit(log).card()
    assert "| train | 2 | 1 | 2 | 0 | 7 |" in card
    assert "Nothing is held out" in card
    assert "nothing to measure" in card


def test_a_card_is_written_beside_the_model(model, tmp_path):
    model.save(tmp_path)
    text = model.card(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == text
    model.card(tmp_path)  # over a card of ours
    (tmp_path / "README.md").write_text(text + "My own words.")
    with pytest.raises(StorageError, match="not written by vitalrank"):
        model.card(tmp_path)
    model.card(tmp_path, force=True)
    model.save(tmp_path)  # which stays
    assert (tmp_path / "README.md").is_file()
    assert repr(vr.load(tmp_path)) == repr(model)
    (tmp_path / "README.md").write_text("my own words")
    with pytest.raises(StorageError, match="not written by vitalrank"):
        model.card(tmp_path)
    model.card(tmp_path, force=True)


def test_a_model_goes_to_the_hub_and_comes_back(model, hub):
    assert model.push("shop/ranking") == "hf://shop/ranking"
    assert {file.name for file in (hub.root / "shop/ranking").iterdir()} == FILES
    assert "vr.load('hf://shop/ranking')" in (hub.root / "shop/ranking/README.md").read_text(encoding="utf-8")
    (hub.root / "shop/ranking/evil.py").write_text("raise SystemExit")
    again = vr.load("hf://shop/ranking@v1")
    users = model.train.user_ids[:5]
    np.testing.assert_array_equal(again.recommend(users, n=5)[0], model.recommend(users, n=5)[0])
    assert hub.calls == [{"private": True, "token": None}, {"revision": "v1"}]
    assert not (hub.root.parent / "cache/evil.py").exists()


@pytest.mark.parametrize("name", ["ranking", "a/b/c", "shop/ranking@v1", "../x", ""])
def test_a_repository_is_owner_and_name(model, hub, name):
    with pytest.raises(SettingError, match="owner/name"):
        model.push(name)


def test_what_fails_on_the_hub_is_one_sentence(model, hub):
    with pytest.raises(StorageError, match=r"hf://shop/none: cannot be read \(.*\)\.$"):
        vr.load("hf://shop/none")

    def refuse(*given, **options):
        raise ConnectionError("no way\nout")

    hub.create_repo = refuse
    with pytest.raises(StorageError, match=r"cannot be written \(no way\)\.$"):
        model.push("shop/ranking")


def test_without_the_package_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match=r"pip install 'vitalrank\[hub\]'"):
        model.push("shop/ranking")


def test_the_real_package_takes_these_arguments(model, hub):
    monkey = sys.modules.pop("huggingface_hub")
    real = pytest.importorskip("huggingface_hub")
    try:
        for name in ("create_repo", "upload_folder", "snapshot_download"):
            wanted = set(inspect.signature(getattr(hub, name)).parameters)
            assert wanted <= set(inspect.signature(getattr(real, name)).parameters), name
    finally:
        sys.modules["huggingface_hub"] = monkey


def test_on_the_command_line(model, hub, tmp_path, capsys):
    run = tmp_path / "run"
    model.save(run)
    assert call("card", run) == 0
    assert capsys.readouterr().out == model.card()
    assert call("card", run, "--out", run) == 0
    assert (run / "README.md").read_text(encoding="utf-8") == model.card()
    assert call("card", run, "--push", "shop/ranking", "--public") == 0
    assert "vr.load('hf://shop/ranking')" in capsys.readouterr().out
    assert hub.calls[-1]["private"] is False
    assert "--public is for --push" in complaint(capsys, "card", run, "--public")
