"""Kill it, fill the disk, tamper with its files: a resumed run has the bits of an undisturbed one, or says why not."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import vitalrank as vr
from vitalrank.errors import SettingError, StorageError, TrainingError

SCRIPT = """
import sys
import vitalrank as vr

log = vr.datasets.synthetic(users=200, items=120, interactions=5000, seed=0)
train, valid = log.split_last(0.2)
vr.MF(dim=16, bias=True).fit(
    train, vr.VINS(), valid=valid, epochs=12, patience=None, batch=256, schedule="cosine", threads=1,
    checkpoint=sys.argv[1], checkpoint_seconds=0, resume=True,
    callbacks=[lambda record, model: print(record["epoch"], flush=True)],
)
"""


def start(folder, **options):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.PIPE, text=True, **options)


def tensors(folder):
    return (folder / "tensors.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    with start(folder) as process:
        assert process.wait() == 0
    return folder


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bits(undisturbed, tmp_path, seed):
    rng = random.Random(seed)
    folder = tmp_path / "killed"
    kills = 0
    for _ in range(2):
        with start(folder) as process:
            for _ in range(rng.randint(1, 5)):
                process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.03))
            process.kill()
            kills += process.wait() == -9
    assert kills > 0
    with start(folder) as process:
        assert process.wait() == 0
    assert tensors(folder) == tensors(undisturbed)
    epochs = [record["epoch"] for record in vr.load(folder).history]
    assert epochs == list(range(1, 13))


def test_any_number_of_threads_gives_the_same_bits():
    code = """
import hashlib
import vitalrank as vr

log = vr.datasets.synthetic(users=300, items=200, interactions=8000, seed=0)
for sampler in (vr.Uniform(), vr.VINS(), vr.DNS(candidates=4)):
    seen = set()
    for threads in (1, 2, 4):
        model = vr.MF(dim=12).fit(log, sampler, epochs=2, batch=2048, threads=threads, seed=3)
        values = b"".join(model.tensors()[name].tobytes() for name in ("users", "items"))
        seen.add(hashlib.sha256(values).hexdigest() + repr([record["loss"] for record in model.history]))
    print(len(seen))
"""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1"]


def test_a_second_run_in_the_same_folder_is_refused_and_harms_nothing(undisturbed, tmp_path):
    with start(tmp_path / "run") as first:
        first.stdout.readline()
        first.send_signal(signal.SIGSTOP)  # so that it is there, wherever it stands
        try:
            with start(tmp_path / "run", stderr=subprocess.PIPE) as second:
                told = second.communicate()[1]
            with pytest.raises(StorageError, match=f"process {first.pid} writes here now"):
                vr.load(undisturbed).save(tmp_path / "run")
        finally:
            first.send_signal(signal.SIGCONT)
        first.communicate()
    assert second.returncode != 0
    assert f"process {first.pid} writes here now; wait for it or choose another folder." in told
    assert first.returncode == 0
    assert tensors(tmp_path / "run") == tensors(undisturbed)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {path.name for path in undisturbed.iterdir()}


# ------------------------------------------------------------------------------------------------------- faults


def log_of(seed=0):
    return vr.datasets.synthetic(users=60, items=50, interactions=800, seed=seed)


def fit(folder, log=None, epochs=2, **options):
    options = {"sampler": vr.Uniform(), "checkpoint": folder, "resume": True, "checkpoint_seconds": 0, **options}
    return vr.MF(dim=4).fit(log or log_of(), epochs=epochs, **options)


@pytest.fixture
def folder(tmp_path):
    fit(tmp_path / "run")
    return tmp_path / "run"


def everything(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_folder_is_a_model(folder):
    model = fit(folder)
    loaded = vr.load(folder)
    np.testing.assert_array_equal(loaded.item_table, model.item_table)
    assert loaded.history.records == model.history.records


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log": log_of(1)}, "log="),
        ({"seed": 1}, "seed=0, not 1"),
        ({"lr": 0.5}, r"lr=0\.003, not 0\.5"),
        ({"sampler": vr.Popularity()}, "sampler="),
        ({"optimizer": "sgd"}, "optimizer='adam', not 'sgd'"),
    ],
)
def test_a_run_of_other_data_or_settings_is_refused(folder, options, words):
    before = everything(folder)
    with pytest.raises(SettingError, match=words):
        fit(folder, epochs=4, **options)
    assert everything(folder) == before


@pytest.mark.parametrize("damage", ["truncate", "tamper", "remove", "pickle"])
def test_a_damaged_run_is_refused(folder, damage):
    path = folder / "tensors.safetensors"
    content = path.read_bytes()
    damaged = {
        "truncate": content[: len(content) // 2],
        "tamper": content[:-1] + bytes([content[-1] ^ 1]),
        "remove": None,
        "pickle": b"cos\nsystem\n(S'true'\ntR.",
    }[damage]
    path.unlink() if damaged is None else path.write_bytes(damaged)
    before = everything(folder)
    with pytest.raises(StorageError, match=r"tensors\.safetensors"):
        fit(folder, epochs=4)
    assert everything(folder) == before


def test_a_newer_format_is_refused(folder):
    meta = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**meta, "format": 99}))
    before = everything(folder)
    with pytest.raises(StorageError, match="format 99"):
        fit(folder, epochs=4)
    assert everything(folder) == before


def test_a_plain_model_is_not_a_run(tmp_path):
    vr.MF(dim=4).fit(log_of(), vr.Uniform(), epochs=1).save(tmp_path / "model")
    before = everything(tmp_path / "model")
    with pytest.raises(StorageError, match="without training state"):
        fit(tmp_path / "model")
    assert everything(tmp_path / "model") == before


def test_a_folder_that_cannot_be_written_fails_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    epochs = []
    with pytest.raises(StorageError, match="cannot be written"):
        fit(tmp_path / "file" / "run", callbacks=[lambda record, model: epochs.append(record)])
    assert epochs == []


def test_a_full_disk_keeps_the_old_run(folder):
    before = everything(folder)
    resource = pytest.importorskip("resource")  # not on Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # the system then refuses larger files
    try:
        with pytest.raises(StorageError, match="cannot be written"):
            fit(folder, epochs=4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert everything(folder) == before
    assert len(fit(folder, epochs=4).history) == 4


def test_a_file_in_the_place_of_the_folder_fails_before_training(tmp_path):
    (tmp_path / "file").write_text("in the way")
    epochs = []
    with pytest.raises(StorageError, match="is a file; choose another folder"):
        fit(tmp_path / "file", callbacks=[lambda record, model: epochs.append(record)])
    assert epochs == []
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_link_to_a_folder_stays_one(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far", target_is_directory=True)
    fit(tmp_path / "near", epochs=3)
    assert (tmp_path / "near").is_symlink()
    assert len(vr.load(tmp_path / "near").history) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["far", "near"]
    assert len(fit(tmp_path / "near", epochs=4).history) == 4


def test_the_folder_that_one_stands_in_can_hold_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(fit(".", epochs=3).history) == 3
    assert tmp_path.samefile(".")
    assert len(fit(".", epochs=4).history) == 4


def test_a_run_keeps_its_folder_where_the_process_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    fit("run", epochs=3, callbacks=[lambda record, model: os.chdir(tmp_path / "elsewhere")])
    assert len(vr.load(tmp_path / "run").history) == 3
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_inside_another_of_the_same_folder_is_refused(tmp_path):
    with pytest.raises(StorageError, match="a run of this process writes here already"):
        fit(tmp_path / "run", callbacks=[lambda record, model: fit(tmp_path / "run")])


def test_a_run_that_keeps_nothing_leaves_nothing(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(TrainingError, match="diverged in epoch 1 "):
            fit(tmp_path / name, lr=1e30, optimizer="sgd")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("optimizer", ["adam", "adagrad", "sgd"])
def test_divergence_names_the_epoch_and_keeps_the_last_good_state(tmp_path, optimizer):
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+ .*lower lr \(now 10\)"):
        fit(tmp_path / "run", lr=10.0, reg=0.0, optimizer=optimizer, epochs=200)
    if (tmp_path / "run").exists():
        assert np.isfinite(vr.load(tmp_path / "run").item_table).all()


def test_an_early_divergence_leaves_the_last_good_epoch(tmp_path):
    """No checkpoint was due before: the way there is gone again, and the model serves the same."""
    options = {"lr": 0.5, "reg": 0.001, "optimizer": "sgd", "checkpoint_seconds": 30.0}
    model = vr.MF(dim=4)
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+ .*keeps epoch \d+") as told:
        model.fit(log_of(), vr.Uniform(), epochs=40, checkpoint=tmp_path / "run", **options)
    lost, kept = (int(number) for number in re.findall(r"epoch (\d+)", str(told.value)))
    assert kept == lost - 1
    saved = vr.load(tmp_path / "run")
    np.testing.assert_array_equal(saved.item_table, fit(tmp_path / "b", epochs=kept, **options).item_table)
    np.testing.assert_array_equal(model.item_table, saved.item_table)


def test_a_divergence_is_told_although_its_last_good_epoch_cannot_be_kept(tmp_path, monkeypatch):
    def full(*given):
        raise StorageError("the disk is full")

    monkeypatch.setattr("vitalrank.training.runs.write_folder", full)
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+ .*none was written yet"):
        fit(tmp_path / "run", epochs=40, lr=0.5, reg=0.001, optimizer="sgd", checkpoint_seconds=30.0)


@pytest.mark.parametrize("change", [{"step": 0}, {"epoch": 1}, {"records": []}, {"identity": {}}, {}])
def test_a_run_whose_facts_were_changed_is_refused(folder, change):
    meta = json.loads((folder / "model.json").read_text())
    meta["training"] = {**meta["training"], **change} if change else {}
    (folder / "model.json").write_text(json.dumps(meta))
    before = everything(folder)
    with pytest.raises(StorageError, match=r"model\.json: changed since it was written"):
        fit(folder, epochs=4)
    assert everything(folder) == before


def with_matching_digests(folder, **changes):
    """As an attacker would: digests are no signature."""
    meta = json.loads((folder / "model.json").read_text())
    meta["training"] |= changes
    caller = {key: value for key, value in meta.items() if key not in ("format", "library", "digests")}
    meta["digests"]["model.json"] = hashlib.sha256(json.dumps(caller, sort_keys=True).encode()).hexdigest()
    (folder / "model.json").write_text(json.dumps(meta))


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": "2"},
        {"epoch": 3},
        {"step": -1},
        {"step": 2**80},
        {"best_epoch": 7},
        {"best_epoch": 1, "best_value": "high"},
        {"identity": None},
        {"records": [{"epoch": 1}, None]},
        {"before": [1]},
    ],
    ids=str,
)
def test_a_record_that_no_run_wrote_is_refused_in_one_sentence(folder, change):
    with_matching_digests(folder, **change)
    before = everything(folder)
    with pytest.raises(StorageError, match=r"holds no whole record of a run \(.*\); restore it"):
        fit(folder, epochs=4)
    assert everything(folder) == before


def test_a_folder_that_was_removed_during_the_run_is_made_again(tmp_path):
    place = tmp_path / "runs" / "a"

    def remove(record, model):
        if record["epoch"] == 2:
            shutil.rmtree(place.parent)

    fit(place, epochs=3, callbacks=[remove])
    assert len(vr.load(place).history) == 3


def test_a_run_killed_after_its_last_checkpoint_says_how_it_ended_once_resumed(tmp_path):
    def fail(record, model):
        if record["epoch"] == 2:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(tmp_path / "run", epochs=2, callbacks=[fail])
    assert vr.load(tmp_path / "run").history.stopped is None
    tables = vr.load(tmp_path / "run").item_table
    assert fit(tmp_path / "run", epochs=2).history.stopped == "finished"
    assert vr.load(tmp_path / "run").history.stopped == "finished"
    np.testing.assert_array_equal(vr.load(tmp_path / "run").item_table, tables)


def test_a_run_without_its_facts_is_refused(folder):
    (folder / "model.json").unlink()
    before = everything(folder)
    for resume in (True, False):
        with pytest.raises(StorageError, match=r"holds tensors\.safetensors but no model\.json"):
            fit(folder, epochs=4, resume=resume)
    assert everything(folder) == before


def test_a_refused_resume_leaves_the_model_as_it_was(folder):
    model = vr.MF(dim=4).fit(log_of(), vr.Uniform(), epochs=3, lr=0.05)
    before = model.item_table.copy()
    with pytest.raises(SettingError, match=r"lr=0\.003, not 0\.5"):
        model.fit(log_of(), vr.Uniform(), lr=0.5, checkpoint=folder, resume=True)
    np.testing.assert_array_equal(model.item_table, before)
    assert len(model.history) == 3


def test_the_best_epoch_is_served_although_the_last_write_fails(tmp_path):
    train, valid = log_of().split_last(0.2)
    place = tmp_path / "run"

    def spoil(record, model):
        if record["epoch"] == 12:
            shutil.rmtree(place)
            place.write_text("")

    model = vr.MF(dim=4)
    options = {"checkpoint": place, "checkpoint_seconds": None, "callbacks": [spoil]}
    with pytest.raises(StorageError):
        model.fit(train, vr.Uniform(), valid=valid, epochs=12, lr=0.2, patience=20, **options)
    assert model.history.best_epoch < 12
    assert model.score(valid) == pytest.approx(max(record["ndcg@10"] for record in model.history))


class Own:
    """A sampler without a name of its own."""

    def bind(self, train, seed):
        return vr.Uniform().bind(train, seed=seed)


def test_a_run_with_a_sampler_of_ones_own_goes_on(tmp_path):
    fit(tmp_path / "run", sampler=Own())
    assert len(fit(tmp_path / "run", sampler=Own(), epochs=4).history) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train": "log.tsv"}, "train is of type str; give a log"),
        ({"valid": 0.1}, "valid is of type float; give a log"),
        ({"callbacks": print}, "callbacks is <built-in function print>"),
        ({"callbacks": ["x"]}, "callbacks holds 'x'"),
        ({"checkpoint": ""}, "checkpoint is ''; give the name of a folder"),
        ({"loss": ["bpr"]}, "unknown loss"),
        ({"metric": "bogus@10"}, "unknown metric 'bogus'"),
    ],
    ids=str,
)
def test_what_fit_cannot_take_is_told_in_one_line(options, words):
    with pytest.raises(SettingError, match=words):
        vr.MF(dim=4).fit(**{"train": log_of(), "sampler": vr.Uniform(), "epochs": 1, **options})
