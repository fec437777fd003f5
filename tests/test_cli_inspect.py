"""``inspect`` tells how a run was trained, epoch by epoch."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vitalrank as vr
from commands import call, complaint, told
from vitalrank import analysis


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model whose draws were counted, and the folder of its run."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    train, valid = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0).split_last(0.2)
    sampler = analysis.Counted(vr.VINS(kappa=32))
    model = vr.MF(dim=8)
    model.held_out = {"valid": valid, "test": valid}
    model.fit(train, sampler, valid=valid, epochs=9, lr=0.01, callbacks=[sampler.on_epoch], checkpoint=folder)
    return model, folder


def text_of(capsys, folder):
    assert call("inspect", folder) == 0
    return " ".join(capsys.readouterr().out.split())


def test_sampler_and_settings_are_named(trained, capsys):
    model, folder = trained
    found = told(capsys, "inspect", folder)
    assert found["sampler"] == repr(vr.VINS(kappa=32))
    assert found["training"]["lr"] == 0.01
    assert found["best_epoch"] == model.history.best_epoch
    text = text_of(capsys, folder)
    assert "Trained with VINS(" in text
    assert f"9 epochs, epoch {model.history.best_epoch} kept" in text
    assert "lr 0.01" in text


def test_epochs_are_shown_from_first_to_last(trained, capsys):
    model, folder = trained
    text = text_of(capsys, folder)
    assert "epoch loss tries vanished unviolated imbalance min / med / max ndcg@10" in text
    for epoch in (1, 9):
        record = model.history[epoch - 1]
        assert f"{epoch} {record['loss']:.4f} {record['tries']:.1f}" in text
        assert f"{record['imbalance']['median']:.3g} / {record['imbalance']['max']:.3g}" in text
    assert [record["epoch"] for record in told(capsys, "inspect", folder)["history"]] == list(range(1, 10))


def test_a_saved_model_is_told_like_its_run(trained, tmp_path, capsys):
    model, folder = trained
    run = told(capsys, "inspect", folder)
    model.save(tmp_path / "saved")
    vr.load(tmp_path / "saved").save(tmp_path / "again")
    for name in ("saved", "again"):
        assert told(capsys, "inspect", tmp_path / name) == {**run, "run": str(tmp_path / name)}


def test_a_torch_model_keeps_how_it_was_trained(tmp_path, capsys):
    pytest.importorskip("torch")
    log = vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)
    vr.CML(dim=4).fit(log, epochs=2, seed=np.int64(3)).save(tmp_path / "cml")
    found = told(capsys, "inspect", tmp_path / "cml")
    assert found["sampler"].startswith("CML(")
    assert (found["training"]["loss"], found["training"]["seed"], found["best_epoch"]) == ("hinge", 3, None)


def test_a_folder_of_an_older_version_is_told_without_them(trained, tmp_path, capsys):
    model, _ = trained
    model.save(tmp_path / "old")
    file = tmp_path / "old" / "model.json"
    meta = json.loads(file.read_text(encoding="utf-8"))
    del meta["record"]["fit"], meta["digests"]["model.json"]
    file.write_text(json.dumps(meta), encoding="utf-8")
    assert told(capsys, "inspect", tmp_path / "old")["sampler"] is None
    assert "not kept in this folder" in text_of(capsys, tmp_path / "old")


def test_a_run_is_drawn_on_a_page(trained, tmp_path, capsys):
    _, folder = trained
    assert call("inspect", folder, "--page", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "MF with VINS reaches NDCG@10" in page
    assert "<title>One run: MF with VINS</title>" in page
    assert "<h2>Figures" in page
    for word in ("Click a column", "tune TRIALS", "What the samplers did", "sortable", "aria-pressed", "MF with VI…"):
        assert word not in page.partition("<body>")[2].partition("<script>")[0], word
    assert "VINS(beta=0.5, kappa=32" in page
    assert "nothing to draw" not in page
    assert "page.html" in capsys.readouterr().out


def test_a_page_replaces_an_earlier_one_and_nothing_else(trained, tmp_path, capsys):
    _, folder = trained
    for _ in range(2):
        assert call("inspect", folder, "--page", tmp_path / "page.html") == 0
    capsys.readouterr()
    for name, text in (("log.tsv", "user\titem\n"), ("own.html", "<!doctype html>\n<title>Mine</title>\n")):
        (tmp_path / name).write_text(text)
        told = complaint(capsys, "inspect", folder, "--page", tmp_path / name)
        assert "exists and was not written by vitalrank" in told
        assert (tmp_path / name).read_text() == text


def test_a_page_needs_a_test_part(tmp_path, capsys):
    vr.MostPopular().fit(vr.datasets.synthetic(users=60, items=50, interactions=900, seed=0)).save(tmp_path / "p")
    assert "holds out no test set" in complaint(capsys, "inspect", tmp_path / "p", "--page", tmp_path / "page.html")
