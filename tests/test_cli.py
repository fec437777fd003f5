"""The command line, end to end on a small log: what it prints, what it leaves, how it exits."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

import vitalrank as vr
from commands import QUICK, call, complaint, told, write_log
from vitalrank._util.devices import resolve
from vitalrank.cli import doctor


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "log.tsv")


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a"
    assert call("fit", log, "--out", folder, "--set", "dim=8", *QUICK) == 0
    return folder


# ---------------------------------------------------------------------------------------------------- commands


def test_fit_evaluate_recommend_similar(run, capsys):
    assert 0 < told(capsys, "evaluate", run, "--at", 5)["ndcg@5"] < 1
    lists = told(capsys, "recommend", run, "--user", "u1", "--user", "u2", "--n", 3)
    assert [len(lists[user]) for user in ("u1", "u2")] == [3, 3]
    assert len(told(capsys, "similar", run, "--item", "i1", "--n", 4)["i1"]) == 4


@pytest.mark.parametrize("words", [("fit", "--model"), ("tune", "--model"), ("compare", "--models")])
def test_a_model_over_modules_is_for_python(words, log, tmp_path, capsys):
    pytest.importorskip("torch")
    command, flag = words
    said = complaint(capsys, command, log, "--out", tmp_path / "new", flag, "torchrecommender")
    assert "TorchRecommender takes modules of your own, in Python; choose one of mf" in said


def test_nothing_of_the_log_is_recommended_again(log, run, capsys):
    whole = vr.read(log)
    for number in range(0, 60, 7):
        user = whole.user_ids[number]
        picks = {pick["item"] for pick in told(capsys, "recommend", run, "--user", user, "--n", 50)[user]}
        assert picks == set(whole.item_ids) - set(whole.item_ids[whole.items[whole.users == number]])


@pytest.mark.parametrize(
    ("words", "complained"),
    [
        ("--set dim=2000000000", "cpu ran out of memory; use a smaller dim"),
        ("--negatives 1000000000", "an array of shape (512, 1000000000) takes 3814.7 GiB"),
        ("--set dim=100000000000", "dim is 100000000000; it must be at most 2147483647."),
        ("--set kappa=99999999999999999999999", "kappa is 99999999999999999999999; it must be at most"),
        ("--set shots=99999999999999999999999", "shots is 99999999999999999999999; it must be at most"),
        ("--sampler dns --set candidates=9999999999", "candidates is 9999999999; it must be at most"),
    ],
)
def test_absurd_sizes_are_told_in_one_line(log, tmp_path, capsys, words, complained):
    resource = pytest.importorskip("resource")  # not on Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30, hard))  # a machine that has more
    try:
        assert complained in complaint(capsys, "fit", log, "--out", tmp_path / "a", *words.split())
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_list_ends_with_the_last_item_that_is_left(log, tmp_path, capsys):
    assert call("fit", log, "--out", tmp_path / "run", "--model", "mostpopular") == 0
    seen = vr.read(log).user_degree[0]
    user = vr.read(log).user_ids[0]
    capsys.readouterr()
    assert len(told(capsys, "recommend", tmp_path / "run", "--user", user, "--n", 100)[user]) == 50 - seen
    assert call("recommend", tmp_path / "run", "--user", user, "--n", 100) == 0
    text = capsys.readouterr().out
    assert text.count("\n") == 1 + 50 - seen
    assert "inf" not in text


def test_count_keeps_the_imbalance_of_each_epoch(log, tmp_path, capsys):
    options = ["--epochs", "2", "--set", "dim=8", "--seed", "0"]
    for name, more in (("plain", []), ("counted", ["--count"])):
        assert call("fit", log, "--out", tmp_path / name, *options, *more) == 0
    capsys.readouterr()
    plain, counted = (vr.load(tmp_path / name) for name in ("plain", "counted"))
    assert "imbalance" not in plain.history[-1]
    assert counted.history[-1]["imbalance"]["max"] > 0
    for name, table in plain.tensors().items():
        np.testing.assert_array_equal(table, counted.tensors()[name])


def test_a_device_that_is_not_there_is_told_in_one_line(run, capsys):
    if resolve("auto") != "cpu":
        pytest.skip("there is a GPU")
    for command in (["evaluate", run], ["recommend", run, "--user", "u1"]):
        assert call(*command, "--device", "cuda") == 2
        assert "use device='cpu'" in capsys.readouterr().err


def test_fit_goes_on_where_it_stopped(log, run, capsys):
    arguments = ("--out", run, "--set", "dim=8", "--epochs", 3, "--threads", 1)
    assert "resume it" in complaint(capsys, "fit", log, *arguments)
    assert call("fit", log, *arguments, "--resume") == 0
    assert len(vr.load(run).history) == 3


@pytest.mark.parametrize("model", ["itemknn", "mostpopular"])
def test_a_model_without_steps_overwrites_no_run(log, run, capsys, model):
    before = repr(vr.load(run))
    assert "already holds a run; choose another folder" in complaint(capsys, "fit", log, "--model", model, "--out", run)
    assert repr(vr.load(run)) == before


def test_a_model_without_steps_names_the_options_that_need_them(log, tmp_path, capsys):
    asked = ("--epochs", 3, "--hinge-margin", 2, "--checkpoint-epochs", 3, "--resume", "--count")
    told = complaint(capsys, "fit", log, "--model", "itemknn", "--out", tmp_path / "new", *asked)
    assert "leave out --epochs, --hinge-margin, --checkpoint-epochs, --resume, --count." in told


def test_inspect_prints_numbers_and_advice(run, capsys):
    found = told(capsys, "inspect", run)
    assert found["epochs"] >= 2
    assert found["advice"]
    assert call("inspect", run) == 0
    text = capsys.readouterr().out
    for name in ("imbalance", "tries", "vanished gradients", "frequency clustering", "coverage", "Advice"):
        assert name in text


def test_inspect_a_model_without_vectors(log, tmp_path, capsys):
    assert call("fit", log, "--out", tmp_path / "p", "--model", "mostpopular") == 0
    capsys.readouterr()
    assert told(capsys, "inspect", tmp_path / "p")["clustering"] is None
    assert call("inspect", tmp_path / "p") == 0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_inspect_a_log_of_one_item(tmp_path, capsys):
    """It is never a negative: its imbalance is infinite, which JSON has no number for."""
    vr.MostPopular().fit(vr.Interactions.from_arrays([1, 2, 3], [7, 7, 7])).save(tmp_path / "run")
    assert told(capsys, "inspect", tmp_path / "run")["imbalance_by_beta"]["0.0"]["min"] is None
    assert call("inspect", tmp_path / "run") == 0
    assert "inf / inf / inf" in capsys.readouterr().out


def test_compare_writes_tables_and_a_page_and_goes_on(log, tmp_path, capsys):
    words = ("compare", log, "--out", tmp_path, "--samplers", "uni,vins", "--models", "mf,mostpopular", "--seeds", 2,
             "--set", "vins.beta=1.0", "--set", "mf.dim=8", *QUICK)  # fmt: skip
    assert call(*words) == 0
    out = capsys.readouterr().out
    assert "mf vins" in out
    assert "report.html" in out
    found = {path.name for path in tmp_path.iterdir()}
    assert found >= {"report.html", "results.csv", "results.json", "results.md", "results.tex"}
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    again = told(capsys, *words)
    assert [row["runs"] for row in again["ranking"] if row["label"] == "mostpopular"] == [1]
    assert [row["sampler"] for row in again["ranking"] if row["label"] == "mf vins"] == [repr(vr.VINS(beta=1.0))]
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()} == before


def test_demo_ends_with_a_page(tmp_path, capsys):
    assert call("demo", "--epochs", 1, "--out", tmp_path) == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("For user", "Quality:", "Hard negatives:", "Popularity:", "report.html", "vitalrank inspect"):
        assert word in text
    assert (tmp_path / "report.html").stat().st_size > 10_000
    found = told(capsys, "demo", "--epochs", 1, "--out", tmp_path)  # the same again is read, not trained
    assert {row["label"] for row in found["ranking"]} == {"uni", "pop", "dns", "lfm-w", "vins"}
    assert len(found["lessons"]) == 3


def test_doctor_finds_nothing_wrong(capsys):
    assert call("doctor") == 0
    assert "fails" not in capsys.readouterr().out


def test_doctor_tells_what_fails(capsys, monkeypatch):
    def broken():
        raise OSError("no [space]")

    monkeypatch.setattr(doctor, "_checks", lambda: [("disk", broken), ("python", lambda: "3")])
    assert call("doctor") == 1
    assert "disk fails OSError: no [space]" in " ".join(capsys.readouterr().out.split())
    assert call("doctor", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["disk"] == {"ok": False, "detail": "OSError: no [space]"}
    assert found["python"]["ok"]


BARE = {
    "fit": ("--epochs", 1, "--set", "dim=4"),
    "compare": ("--epochs", 1, "--set", "mf.dim=4", "--samplers", "uni", "--seeds", 1),
    "tune": ("--epochs", 1, "--range", "dim=4,8", "--trials", 1),
}


@pytest.fixture(scope="module")
def bare(log, tmp_path_factory):
    """The log without a header, with numbers that are no times for sure in the third column."""
    made = vr.read(log)
    rows = zip(made.user_ids[made.users], made.item_ids[made.items], made.times.tolist(), strict=True)
    path = tmp_path_factory.mktemp("bare") / "bare.csv"
    path.write_text("".join(f"{u},{i},{t}\n" for u, i, t in rows))
    return path


@pytest.mark.parametrize("command", BARE)
def test_columns_of_a_file_without_header_have_numbers(bare, tmp_path, capsys, command):
    if command == "tune":
        pytest.importorskip("optuna")
    words = (command, bare, *BARE[command])
    assert "(--time 2) or time=False (--no-time)" in complaint(capsys, *words, "--out", tmp_path / "none")
    told(capsys, *words, "--out", tmp_path / "number", "--time", 2)
    told(
        capsys, *words, "--out", tmp_path / "order", "--no-time", "--user", 0, "--item", 1, "--sep", ",", "--no-header"
    )


def test_the_numbers_of_columns_are_those_of_the_file(bare, tmp_path, capsys):
    told(
        capsys, "fit", bare, "--out", tmp_path / "run", "--model", "mostpopular", "--user", 1, "--item", 0, "--time", 2
    )
    assert vr.load(tmp_path / "run").train.user_ids[0].startswith("i")


def test_how_a_log_is_read_is_part_of_a_saved_config(bare, tmp_path, capsys):
    words = ("fit", bare, "--model", "mostpopular", "--out")
    told(capsys, *words, tmp_path / "a", "--no-time", "--no-header", "--save-config", tmp_path / "saved.toml")
    assert call(*words, tmp_path / "b", "--config", tmp_path / "saved.toml", "--sep", ",") == 0
    assert vr.load(tmp_path / "b").train.times is None
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].partition("? ")[2])  # what to go on with
    assert {"--no-time", "--no-header", "--sep"} < set(command)
    assert told(capsys, *command[1:], "--models", "mostpopular", "--samplers", "uni", "--baselines", "none")["ranking"]


def test_data_lists_the_known_sets(capsys):
    assert call("data", "list") == 0
    assert "ml-100k" in capsys.readouterr().out
    assert "GroupLens" in told(capsys, "data", "list")["ml-100k"]["terms"]


def test_data_prepare_tells_the_shape(tmp_path, capsys):
    found = told(capsys, "data", "prepare", write_log(tmp_path / "log.tsv"), tmp_path / "log.parquet")
    assert (found["users"], found["observations"]) == (60, len(vr.read(tmp_path / "log.parquet")))


# ---------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fly"], "fly"),
        (["fit", "{log}"], "out"),
        (["fit", "{log}", "--out", "{new}", "--speed", "9"], "--speed"),
        (["fitt", "{log}"], "Did you mean 'fit'? See "),
        (["fit", "none.csv", "--out", "{new}"], "none.csv"),
        (["fit", "{log}", "--out", "{new}", "--sampler", "warp"], "unknown sampler 'warp'"),
        (["fit", "{log}", "--out", "{new}", "--set", "beta"], "NAME=VALUE"),
        (["fit", "{log}", "--out", "{new}", "--lr", "-1"], "lr"),
        (
            ["fit", "{log}", "--out", "{new}", "--hinge-margin", "3"],
            "(--hinge-margin) is 3, but the loss",
        ),
        (["fit", "{log}", "--out", "{new}", "--test", "0", "--patience", "3"], "patience counts evaluations on valid"),
        (["fit", "{log}", "--out", "{new}", "--set", "bias=no"], "bias is 'no'; it must be True or False."),
        (["fit", "{log}", "--out", "{new}", "--set", "weight=[1]"], "unknown weight [1]"),
        (["fit", "{log}", "--out", "{new}", "--model", "itemknn", "--set", "neighbours=many"], "neighbours is 'many'"),
        (["paper", "table2", "--data", "{log}", "--out", "{new}", "--set", "epochs=abc"], "epochs is 'abc'"),
        (["paper", "table2", "--data", "none.csv", "--out", "{new}"], "none.csv: no such file"),
        (["paper", "table2", "--data", "gowalla", "--out", "{new}"], "vitalrank data prepare gowalla"),
        (["demo", "--seed", "-1"], "seed is -1"),
        (["fit", "{log}", "--out", "{new}", "--time", "time", "--no-time"], "--time time and --no-time exclude"),
        (["data", "prepare", "{log}", "{new}", "--time", "time", "--no-time"], "--time time and --no-time exclude"),
        (["evaluate", "{new}"], "no such folder; give one that fit or save() wrote"),
        (["inspect", "{log}"], "no model.json here"),
        (["inspect", "{run}", "--n", "0"], "n=0"),
        (["inspect", "{run}", "--sample", "-1"], "sample is -1"),
        (["inspect", "{run}", "--seed", "-1"], "seed is -1"),
        (["recommend", "{run}", "--user", "nobody"], "nobody"),
        (["compare", "{log}", "--out", "{new}", "--samplers", "uni,warp"], "unknown sampler 'warp'"),
        (["compare", "{log}", "--out", "{new}", "--models", "svd"], "unknown model 'svd'"),
        (["compare", "{log}", "--out", "{new}", "--set", "beta=1"], "NAME.SETTING=VALUE"),
        (["compare", "{log}", "--out", "{new}", "--set", "pop.beta=1"], "'pop' is not compared"),
        (["compare", "{log}", "--out", "{new}", "--set", "vins.speed=1"], "no setting 'speed'"),
        (["compare", "{log}", "--out", "{new}", "--set", "ease.speed=1"], "ease has no setting 'speed'"),
        (["compare", "{log}", "--out", "{new}", "--baselines", "mf"], "'mf' is trained with a sampler and no baseline"),
        (["compare", "{log}", "--out", "{new}", "--metric", "ndcg"], "ndcg@10"),
        (["compare", "{log}", "--out", "{new}", "--metric", "coverage@10"], "cannot rank; choose one of precision"),
        (["compare", "{log}", "--out", "{new}", "--seeds", "0"], "seeds"),
        (["compare", "{log}", "--out", "{new}", "--samplers", ","], "nothing to compare"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(log, run, tmp_path, capsys, words, part):
    places = {"log": log, "run": run, "new": tmp_path / "new"}
    assert part in complaint(capsys, *(word.format(**places) for word in words))


def test_a_model_without_its_extra_says_what_to_install(log, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "vitalrank.models.sasrec", raising=False)
    message = complaint(capsys, "fit", log, "--out", tmp_path / "new", "--model", "sasrec")
    assert "SASRec needs torch: pip install 'vitalrank[torch]'" in message


def test_a_comparison_that_cannot_rank_trains_nothing(log, tmp_path, capsys):
    complaint(capsys, "compare", log, "--out", tmp_path / "new", "--metric", "coverage@10")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("user", ["²", "--5", "1_0", "x", "9" * 5000])
def test_a_user_that_is_no_number_is_unknown_to_a_log_of_numbers(tmp_path, capsys, user):
    vr.MostPopular().fit(vr.Interactions.from_arrays([1, 5, 10], [1, 2, 3])).save(tmp_path / "run")
    assert "No user" in complaint(capsys, "recommend", tmp_path / "run", f"--user={user}")


def test_a_known_data_set_is_a_log_of_a_study(log, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(vr.datasets, "get", lambda name: log)
    words = ("paper", "table1", "--data", "ml-100k", "--min-user", 0, "--min-item", 0, "--out", tmp_path)
    told(capsys, *words)
    assert "ml-100k" in (tmp_path / "table1.md").read_text()


def test_an_interruption_is_exit_code_1(log, tmp_path, capsys, monkeypatch):
    from vitalrank.comparing import runner

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.Trainer, "fit", stop)
    assert call("compare", log, "--out", tmp_path, *QUICK) == 1
    err = capsys.readouterr().err
    assert "0 of 15 runs are finished" in err
    assert "Traceback" not in err


def test_help_and_version(capsys):
    for command in ((), ("fit",), ("compare",), ("inspect",), ("demo",)):
        assert call(*command, "--help") == 0
        assert "Usage" in capsys.readouterr().out
    assert call("--version") == 0
    assert vr.__version__ in capsys.readouterr().out


def test_a_pipe_gets_no_colours():
    code = "from vitalrank.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "data", "list"], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert "ml-100k" in done.stdout
