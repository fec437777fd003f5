"""The trainer, with a toy model whose engine adds the learning rate to one number."""

import json
import signal
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import vitalrank as vr
from vitalrank.checkpoint import read_folder, write_folder
from vitalrank.config import TrainConfig
from vitalrank.engines.base import HostEngine, Totals
from vitalrank.errors import DataError, SettingError, StorageError, TrainingError
from vitalrank.history import History
from vitalrank.models.base import Recommender
from vitalrank.training import Trainer
from vitalrank.training.progress import ProgressBar

LOG = vr.Interactions.from_arrays([0, 0, 1, 1, 2], [0, 1, 1, 2, 0])


class ToyEngine(HostEngine):
    def __init__(self, losses):
        self.step = 0
        self.losses = losses
        self.rates = []
        self.value = np.zeros(1, np.float32)
        self.moment = np.zeros(1, np.float32)
        self.at_batch = lambda: None

    def values(self):
        return {"value": self.value}

    def state(self):
        return {"moment": self.moment}

    def load(self, values, state=None):
        self.value[:] = values["value"]
        if state is not None:
            self.moment[:] = state["moment"]

    def run_epoch(self, epoch, rate, on_progress):
        for share in (0.0, 0.5):
            self.rates.append(rate(share))
            self.step += 1
            self.moment += self.step
            self.value += self.moment
            self.at_batch()
        totals = Totals(positives=5, skipped=1, loss=4 * self.losses[epoch - 1], start_loss=4.0, tries=12, vanished=2)
        on_progress(totals)
        return totals


class Toy(Recommender):
    def __init__(self, losses=(0.5,) * 20):
        self.engine = ToyEngine(losses)
        self.settled = 0
        self.history = History()

    def build(self, train, sampler, config):
        self.train = train
        return self.engine

    def release_training_state(self):
        self.settled += 1

    def scores(self, users, start, stop):
        return np.zeros((len(users), stop - start), np.float32)

    fit = history_scores = similarities = restore = None

    def settings(self):
        return {}

    def tensors(self):
        return self.engine.values()


Toy.__abstractmethods__ = frozenset()


class Sampler:
    def bind(self, train, seed):
        return None

    def __repr__(self):
        return "Sampler()"


@pytest.fixture
def scripted_metric(monkeypatch):
    """The model scores these values on valid, one after the other."""

    def script(*values):
        answers = iter(values)
        monkeypatch.setattr("vitalrank.evaluation.value_of", lambda *a, **k: next(answers))

    return script


def fit(model=None, valid=None, config=None, **options):
    model = model or Toy()
    history = Trainer(config or TrainConfig(epochs=4), **options).fit(model, LOG, Sampler(), valid)
    return model, history


def test_one_record_per_epoch():
    model, history = fit()
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    record = history[0]
    assert (record["loss"], record["tries"], record["vanished"], record["skipped"]) == (0.5, 3.0, 0.5, 1)
    assert record["unviolated"] is None
    assert record["seconds"] >= 0
    assert history.stopped == "finished"
    assert model.history is history
    assert model.settled == 1


def test_the_history_as_a_frame_and_as_lines(tmp_path):
    _, history = fit()
    frame = history.to_frame()
    assert frame["epoch"].tolist() == [1, 2, 3, 4]
    text = history.to_jsonl(tmp_path / "h.jsonl")
    assert (tmp_path / "h.jsonl").read_text() == text
    assert [json.loads(line) for line in text.splitlines()] == history.records
    with pytest.raises(StorageError, match="cannot be written"):
        history.to_jsonl(tmp_path)


def test_numbers_of_numpy_in_a_record_are_saved_as_numbers(tmp_path):
    def note(record, model):
        record["seen"], record["share"], record["parts"] = np.int64(3), np.float32(0.5), np.arange(2)

    log = vr.datasets.synthetic(users=30, items=20, interactions=200, seed=0)
    options = {"callbacks": [note], "checkpoint": tmp_path / "run", "checkpoint_seconds": 0}
    model = vr.MF(4).fit(log, vr.Uniform(), epochs=2, **options)
    model.save(tmp_path / "model")
    for record in (json.loads(model.history.to_jsonl().splitlines()[0]), *vr.load(tmp_path / "model").history):
        assert (record["seen"], record["share"], record["parts"]) == (3, 0.5, [0, 1])
    assert vr.load(tmp_path / "run").history[-1]["seen"] == 3


def test_what_is_no_number_in_a_record_is_named_when_it_is_saved(tmp_path):
    _, history = fit()
    history[0]["thing"] = object()
    with pytest.raises(StorageError, match="type object is not JSON serializable"):
        history.to_jsonl()
    with pytest.raises(StorageError, match="type object is not JSON serializable"):
        write_folder(tmp_path / "model", {"history": history.records}, {})
    assert not (tmp_path / "model").exists()


def test_the_history_is_an_arrow_table_without_pandas(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    assert History([{"epoch": 1, "loss": 0.5}]).to_frame().to_pylist() == [{"epoch": 1, "loss": 0.5}]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1, 1, 1, 1]),
        ("linear", [1, 0.75, 0.5, 0.25]),
        ("cosine", [1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_schedules(schedule, expected):
    model, _ = fit(config=TrainConfig(epochs=2, lr=0.1, schedule=schedule))
    assert model.engine.rates == pytest.approx([0.1 * x for x in expected], abs=1e-6)


def test_the_best_epoch_is_restored(scripted_metric):
    scripted_metric(0.1, 0.3, 0.2, 0.3)
    model, history = fit(valid=LOG)
    assert history.best_epoch == 2
    assert [record["ndcg@10"] for record in history] == [0.1, 0.3, 0.2, 0.3]
    two_epochs, _ = fit(config=TrainConfig(epochs=2))
    assert model.engine.value == two_epochs.engine.value


def test_patience_counts_evaluations_without_a_better_one(scripted_metric):
    scripted_metric(0.1, 0.3, 0.2, 0.1, 0.9)
    _, history = fit(valid=LOG, config=TrainConfig(epochs=9, patience=2))
    assert (len(history), history.stopped, history.best_epoch) == (4, "patience", 2)


@pytest.mark.parametrize(("schedule", "length"), [("constant", 11), ("linear", 14), ("cosine", 14)])
def test_a_falling_rate_is_not_stopped_early_unless_asked(scripted_metric, schedule, length):
    scripted_metric(0.3, *[0.1] * 12, 0.4)
    _, history = fit(valid=LOG, config=TrainConfig(epochs=14, schedule=schedule))
    assert len(history) == length
    scripted_metric(0.3, *[0.1] * 3)
    _, history = fit(valid=LOG, config=TrainConfig(epochs=14, schedule=schedule, patience=3))
    assert (len(history), history.stopped) == (4, "patience")


def test_valid_every_and_always_at_the_end(scripted_metric):
    scripted_metric(0.1, 0.2, 0.3)
    _, history = fit(valid=LOG, config=TrainConfig(epochs=5, valid_every=2))
    assert ["ndcg@10" in record for record in history] == [False, True, False, True, True]


def test_callbacks_see_each_record_and_may_stop():
    seen = []

    def callback(record, model):
        seen.append((record["epoch"], float(model.engine.value[0])))
        return record["epoch"] == 2

    model, history = fit(callbacks=[callback])
    assert [epoch for epoch, _ in seen] == [1, 2]
    assert seen[-1][1] == model.engine.value
    assert history.stopped == "callback"


@pytest.mark.parametrize("losses", [(0.5, np.nan), (0.5, np.inf), (0.5, 101.0)])
def test_a_lost_epoch_stops_with_its_number(losses, tmp_path):
    with pytest.raises(TrainingError, match=r"epoch 2 .*lower lr \(now 0.003\).*keeps epoch 1"):
        fit(Toy(losses), checkpoint=tmp_path / "a", checkpoint_epochs=1)
    assert read_folder(tmp_path / "a").meta["training"]["epoch"] == 1


@pytest.mark.parametrize("fault", ["loss", "values"])
def test_a_lost_epoch_is_never_written(fault, tmp_path):
    """Epoch 4 is lost, epoch 3 was not due: it is trained again from epoch 2, and the folder goes on from its bits."""
    model = Toy((0.5, 0.5, 0.5, np.nan if fault == "loss" else 0.5))
    if fault == "values":
        model.engine.at_batch = lambda: model.engine.step == 7 and model.engine.value.fill(np.nan)
    sparse = {"checkpoint_epochs": 2, "checkpoint_seconds": None}
    with pytest.raises(TrainingError, match=r"epoch 4 .*keeps epoch 3"):
        fit(model, checkpoint=tmp_path / "a", **sparse)
    saved = read_folder(tmp_path / "a")
    assert (saved.meta["training"]["epoch"], saved.meta["training"]["step"]) == (3, 6)
    resumed, _ = fit(checkpoint=tmp_path / "a", resume=True)
    assert resumed.engine.value == fit()[0].engine.value


def test_values_that_are_not_finite_stop_too():
    model = Toy()
    model.engine.at_batch = lambda: model.engine.step == 4 and model.engine.value.fill(np.nan)
    with pytest.raises(TrainingError, match=r"epoch 2 .*no checkpoint was asked for"):
        fit(model)


def test_ctrl_c_finishes_the_epoch_saves_and_says_how_to_resume(tmp_path):
    model = Toy()
    model.engine.at_batch = lambda: model.engine.step == 3 and signal.raise_signal(signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"stopped after epoch 2, saved in .*a; the same with resume=True"):
        fit(model, checkpoint=tmp_path / "a")
    assert signal.getsignal(signal.SIGINT) is before
    assert model.history.stopped == "interrupted"
    assert model.settled == 1
    resumed, history = fit(checkpoint=tmp_path / "a", resume=True)
    assert resumed.engine.value == fit()[0].engine.value
    assert len(history) == 4


def test_sigterm_finishes_the_epoch_and_saves_as_ctrl_c_does(tmp_path):
    model = Toy()
    model.engine.at_batch = lambda: model.engine.step == 3 and signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        fit(model, checkpoint=tmp_path / "a")
    assert stop.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert model.history.stopped == "interrupted"
    assert read_folder(tmp_path / "a").meta["training"]["epoch"] == 2


def test_a_handler_of_sigterm_that_is_there_stays():
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        model = Toy()
        model.engine.at_batch = lambda: model.engine.step == 3 and signal.raise_signal(signal.SIGTERM)
        _, history = fit(model)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert len(history) == 4


def test_a_signal_before_the_first_epoch_trains_nothing(tmp_path):
    class Slow(Toy):
        def build(self, *given):
            signal.raise_signal(signal.SIGINT)
            return super().build(*given)

    model = Slow()
    with pytest.raises(KeyboardInterrupt, match="stopped before the first epoch"):
        fit(model, checkpoint=tmp_path / "a")
    assert model.engine.step == 0
    assert list(tmp_path.iterdir()) == []


def test_a_second_ctrl_c_stops_at_once():
    model = Toy()
    model.engine.at_batch = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(model)
    assert model.engine.step == 2


def test_after_a_second_ctrl_c_the_run_goes_on_from_a_whole_epoch(tmp_path):
    model = Toy()
    model.engine.at_batch = lambda: model.engine.step > 4 and signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(model, checkpoint=tmp_path / "a", checkpoint_epochs=1, checkpoint_seconds=None)
    assert model.engine.step == 6  # in the middle of the third epoch
    assert read_folder(tmp_path / "a").meta["training"]["step"] == 4
    resumed, _ = fit(checkpoint=tmp_path / "a", resume=True)
    assert resumed.engine.value == fit()[0].engine.value


def test_an_error_of_a_callback_keeps_the_epoch_before_it(tmp_path):
    def third(record, model):
        if record["epoch"] == 3:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(checkpoint=tmp_path / "a", checkpoint_epochs=2, checkpoint_seconds=None, callbacks=[third])
    assert read_folder(tmp_path / "a").meta["training"]["epoch"] == 3
    resumed, _ = fit(checkpoint=tmp_path / "a", resume=True)
    assert resumed.engine.value == fit()[0].engine.value


def test_a_valid_part_that_cannot_be_measured_is_refused_before_the_first_epoch():
    model = Toy()
    empty = LOG.split_last(0.0)[1]
    with pytest.raises(SettingError, match="validation log is empty"):
        fit(model, valid=empty)
    with pytest.raises(SettingError, match="unknown metric 'fame'"):
        fit(model, valid=LOG, config=TrainConfig(metric="fame@10"))
    other = vr.Interactions.from_arrays([0, 0, 7], [0, 1, 1])
    with pytest.raises(DataError, match=r"valid has other user_ids than .* take all parts from one split_last"):
        fit(model, valid=other)
    assert model.engine.step == 0


def test_resuming_changes_nothing(tmp_path, scripted_metric):
    config = TrainConfig(epochs=6, lr=0.1, schedule="cosine")
    scripted_metric(0.1, 0.3, 0.2, 0.2, 0.2, 0.25, 0.2, 0.2, 0.2, 0.25)
    whole, _ = fit(valid=LOG, config=config, checkpoint=tmp_path / "whole")
    scripted_metric(0.1, 0.3, 0.2, 0.2, 0.2, 0.25)
    for stop in (1, 4, 9):
        model, history = fit(
            valid=LOG,
            config=config,
            checkpoint=tmp_path / "parts",
            resume=True,
            callbacks=[lambda record, model, stop=stop: record["epoch"] == stop],
        )
    assert (len(history), history.best_epoch) == (6, 2)
    assert model.engine.value == whole.engine.value
    parts, undisturbed = ((tmp_path / name / "tensors.safetensors").read_bytes() for name in ("parts", "whole"))
    assert parts == undisturbed


def test_a_finished_run_resumes_to_itself(tmp_path):
    fit(checkpoint=tmp_path / "a")
    before = (tmp_path / "a" / "model.json").read_bytes()
    model, history = fit(checkpoint=tmp_path / "a", resume=True)
    assert model.engine.rates == []
    assert len(history) == 4
    assert (tmp_path / "a" / "model.json").read_bytes() == before


def test_more_epochs_go_on_from_a_finished_run(tmp_path):
    fit(checkpoint=tmp_path / "a", config=TrainConfig(epochs=2))
    model, history = fit(checkpoint=tmp_path / "a", resume=True)
    assert model.engine.value == fit()[0].engine.value
    assert len(history) == 4


def test_folders_are_written_every_so_many_epochs(tmp_path, monkeypatch):
    written = []
    from vitalrank.training.runs import RunFolder

    write = RunFolder.write
    monkeypatch.setattr(RunFolder, "write", lambda self, *a: (written.append(a[-1].epoch), write(self, *a)))
    fit(checkpoint=tmp_path / "a", config=TrainConfig(epochs=5), checkpoint_epochs=2, checkpoint_seconds=None)
    fit(checkpoint=tmp_path / "b", config=TrainConfig(epochs=3), checkpoint_seconds=0)
    fit(checkpoint=tmp_path / "c", config=TrainConfig(epochs=3), checkpoint_seconds=None)
    assert written == [2, 4, 5, 1, 2, 3, 3]


def test_a_new_run_does_not_overwrite_an_old_one(tmp_path):
    fit(checkpoint=tmp_path / "a")
    with pytest.raises(StorageError, match="holds a run already; resume it"):
        fit(checkpoint=tmp_path / "a")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs is 0; it must be a whole number of at least 1"),
        ({"epochs": 2.0}, "epochs is 2.0"),
        ({"batch": True}, "batch is True"),
        ({"lr": 0.0}, "lr is 0.0; it must be a number above 0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"lr": "fast"}, "lr is 'fast'"),
        ({"reg": -1.0}, "reg is -1.0; it must be a number of at least 0"),
        ({"loss": "huber"}, "unknown loss 'huber'"),
        ({"optimizer": "lion"}, "unknown optimizer 'lion'; choose one of adam, adagrad, sgd"),
        ({"schedule": "step"}, "unknown schedule 'step'"),
        ({"patience": 0}, "patience is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"metric": "ndcg"}, "metric 'ndcg' is not a name and a length"),
        ({"metric": "ndcg@010"}, "metric 'ndcg@010' is not a name and a length"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(SettingError, match=words):
        TrainConfig(**settings)


@pytest.mark.parametrize("sampler", ["vins", vr.VINS, vr.VINS().bind(LOG), 3])
def test_what_is_no_unbound_sampler_is_refused(sampler):
    with pytest.raises(SettingError, match=r"sampler is .*such as VINS\(\)"):
        vr.MF(dim=2).fit(LOG, sampler)


def test_wrong_options_are_named(tmp_path):
    with pytest.raises(SettingError, match="resume needs a folder"):
        fit(resume=True)
    with pytest.raises(SettingError, match="checkpoint_epochs needs a folder"):
        fit(checkpoint_epochs=2)
    with pytest.raises(SettingError, match="checkpoint_seconds needs a folder"):
        fit(checkpoint_seconds=0)
    fit(checkpoint_seconds=None)
    with pytest.raises(SettingError, match="checkpoint_epochs is 0"):
        fit(checkpoint=tmp_path / "a", checkpoint_epochs=0)
    empty = vr.Interactions.from_arrays([0], [0]).split_last(0.2)[1]
    with pytest.raises(SettingError, match="training log is empty"):
        Trainer().fit(Toy(), empty, Sampler())


def test_the_bar_shows_what_matters_and_is_quiet_in_a_pipe(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    fit()
    assert capsys.readouterr().err == ""
    with ProgressBar(epochs=3, positives=10, show=True) as bar:
        bar.epoch_started(2)
        bar._refreshed -= 1.0
        bar.on_progress(Totals(positives=5, loss=2.5, tries=20, vanished=1))
        assert "ndcg" not in capsys.readouterr().err
        bar.epoch_finished({"loss": 0.5, "tries": 4.0, "vanished": 0.2, "seconds": 1.0, "ndcg@10": 0.1234}, "ndcg@10")
    shown = capsys.readouterr().err
    assert "epoch 2/3 loss 0.5000 tries 4.0 vanished 20%" in shown
    assert "ndcg@10 0.1234" in shown


def test_threads_are_as_before_after_training():
    import numba

    before = numba.get_num_threads()
    inside = []
    fit(config=TrainConfig(epochs=1, threads=1), callbacks=[lambda *a: inside.append(numba.get_num_threads()) or False])
    assert inside == [1]
    assert numba.get_num_threads() == before


class Plain:
    """A sampler of the caller's own, with nothing but what it and its draws must have."""

    def bind(self, train, seed):
        inner = vr.Uniform().bind(train, seed=seed)

        def draw(*vectors, **call):
            made = inner(*vectors, **call)
            return SimpleNamespace(ids=made.ids, weights=made.weights, tries=made.tries)

        return draw


@pytest.mark.parametrize("kind", ["MF", "FPMC"])
def test_a_sampler_that_is_not_ours_need_only_be_callable(kind):
    if kind != "MF":
        pytest.importorskip("torch")
    log = vr.datasets.synthetic(users=30, items=20, interactions=200, seed=0)
    ours, theirs = (getattr(vr, kind)(dim=4).fit(log, law, epochs=2) for law in (vr.Uniform(), Plain()))
    np.testing.assert_array_equal(theirs.item_table, ours.item_table)


def test_an_option_without_effect_is_refused():
    model = vr.MF(dim=2)
    with pytest.raises(SettingError, match=r"margin .* is 3, but the loss 'bpr' has none"):
        model.fit(LOG, vr.Uniform(), margin=3.0)
    with pytest.raises(SettingError, match="patience counts evaluations on valid"):
        model.fit(LOG, vr.Uniform(), patience=3)
    model.fit(LOG, vr.Uniform(), epochs=1, margin=TrainConfig.margin, patience=None)
    model.fit(LOG, vr.Uniform(), epochs=1, loss="hinge", margin=3.0)


def test_a_margin_that_no_compared_model_has_is_refused():
    laws = {"uni": vr.Uniform()}
    with pytest.raises(SettingError, match=r"margin .* is 3"):
        vr.compare(LOG, laws, config=TrainConfig(margin=3.0))


def test_a_margin_that_no_trial_has_is_refused():
    pytest.importorskip("optuna")
    with pytest.raises(SettingError, match=r"margin .* is 3"):
        vr.tune(LOG, LOG, "mf", space={"dim": [2, 4]}, config=TrainConfig(margin=3.0))


@pytest.mark.parametrize(("values", "best"), [((0.1, 0.3, 0.2), 4), ((0.3, 0.1, 0.2), 2), ((0.1, 0.2, 0.3), 6)])
@pytest.mark.parametrize("last", [0.9, 0.0])
def test_more_epochs_forget_an_evaluation_that_only_the_end_called_for(tmp_path, scripted_metric, values, best, last):
    """In six epochs at once the third is not evaluated."""

    def run(epochs, **options):
        return fit(valid=LOG, config=TrainConfig(epochs=epochs, valid_every=2), **options)

    scripted_metric(*values)
    whole, expected = run(6)
    scripted_metric(values[0], last, *values[1:])
    _, short = run(3, checkpoint=tmp_path / "a")
    assert short.best_epoch == (3 if last > values[0] else 2)
    _, same = run(3, checkpoint=tmp_path / "a", resume=True)
    assert (same.best_epoch, same.records) == (short.best_epoch, short.records)
    model, history = run(6, checkpoint=tmp_path / "a", resume=True)
    assert history.best_epoch == expected.best_epoch == best
    assert [record.get("ndcg@10") for record in history] == [record.get("ndcg@10") for record in expected]
    assert model.engine.value == whole.engine.value


class Wrong:
    """A sampler of the caller's own whose draws are no draws."""

    def __init__(self, **changes):
        self.changes = changes

    def bind(self, train, seed):
        inner = vr.Uniform().bind(train, seed=seed)
        return lambda *vectors, **call: replace(inner(*vectors, **call), **self.changes)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (Wrong(ids=np.full((1, 1), 0)), r"ids \(1, 1\).* they must be \(B, k\)"),
        (Wrong(weights=np.ones((1, 1), np.float32)), r"weights \(1, 1\)"),
        (Wrong(ids=None), "without ids"),
        (Wrong(ids=np.full((512, 1), 10**7)), "outside -1 to 39"),
        (Wrong(ids=np.full((512, 1), -(10**7))), "outside -1 to 39"),
        (Wrong(ids=np.full((512, 1), 0.5)), "no whole numbers"),
    ],
    ids=["rows", "weights", "none", "large", "small", "fractions"],
)
def test_a_draw_that_is_none_is_refused(sampler, words):
    log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    with pytest.raises(vr.SettingError, match=words):
        vr.MF(dim=4).fit(log, sampler, epochs=1, batch=512)


def test_a_saved_history_knows_why_it_ended(tmp_path):
    log = vr.datasets.synthetic(users=50, items=40, interactions=600, seed=0)
    vr.MF(dim=4).fit(log, vr.Uniform(), epochs=1).save(tmp_path / "a")
    assert vr.load(tmp_path / "a").history.stopped == "finished"


def test_the_former_name_of_the_engine_still_works():
    with pytest.warns(DeprecationWarning, match=r"training\.Engine"):
        assert vr.training.TrainingEngine is vr.training.Engine
