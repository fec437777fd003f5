"""What a shell relies on: completion, exit codes, colours only where they are wanted, a quick start."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import vitalrank as vr
from vitalrank import cli
from vitalrank.cli import options
from vitalrank.cli.completion import dataset_names
from vitalrank.models import model_names
from vitalrank.samplers import SAMPLERS

CODE = "import sys; sys.argv[0] = 'vitalrank'; from vitalrank.cli import main; main()"


def shell(*words, stdout=subprocess.PIPE, encoding="utf-8", **variables):
    """A command in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding=encoding,
        env={**kept, **variables},
        check=False,
    )


def completed(line, shell_name="bash"):
    words = line.split(" ")
    bash = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    fish = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return shell(**bash, **fish, _VITALRANK_COMPLETE=f"complete_{shell_name}").stdout


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("vitalrank tu", ["tune"]),
        ("vitalrank fit --sampler lfm", ["lfm-d", "lfm-w"]),
        ("vitalrank fit --model m", ["mf", "marank", "mostpopular"]),
        ("vitalrank compare --samplers uni,v", ["uni,vins"]),
        ("vitalrank tune --save", ["--save-config"]),
        ("vitalrank tune --model m", ["mf", "marank"]),
        ("vitalrank fit --schedule cos", ["cosine"]),
        ("vitalrank data get ml-1", [name for name in dataset_names() if name.startswith("ml-1")]),
        ("vitalrank paper table1", ["table1"]),
    ],
)
def test_completion(line, offers):
    assert completed(line).split() == offers


def test_completion_of_other_shells():
    assert "vins" in completed("vitalrank fit --sampler v", "zsh")
    assert "vins" in completed("vitalrank fit --sampler v", "fish")
    # Without a shell above it, as under a daemon, a process cannot find out which one to complete for.
    script = shell("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert script.returncode == 0
    assert "_VITALRANK_COMPLETE" in script.stdout


def test_the_names_are_those_of_the_registries():
    assert list(options.SAMPLERS) == list(SAMPLERS)
    by_name = {name.lower() for name in model_names()} - {"torchrecommender"}  # needs modules, which have no flag
    assert set(options.MODELS) == by_name


def test_exit_codes():
    """1, for a run that was interrupted, is tested with the commands that train."""
    assert shell("--version").returncode == 0
    assert shell("fit", "none.csv", "--out", "a").returncode == 2


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a log whose ids are not in ASCII."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    log = vr.Interactions.from_arrays(["ü", "ü", "v", "v"], ["日", "b", "日", "c"])
    vr.MostPopular().fit(log).save(folder)
    return str(folder)


@pytest.mark.parametrize("words", [["--help"], ["data", "list"], ["recommend", "{run}", "--user", "ü"]])
def test_output_that_cannot_be_written_is_told_in_one_line(run, words):
    with Path("/dev/full").open("w") as full:
        done = shell(*(word.format(run=run) for word in words), stdout=full)
    assert done.returncode == 2
    assert done.stderr == "error: cannot read or write: [Errno 28] No space left on device.\n"


@pytest.mark.parametrize(
    ("encoding", "letters"), [("ascii", "\\xfc \\u65e5"), ("cp1252", "ü \\u65e5"), ("utf-8", "ü 日")]
)
def test_letters_that_a_terminal_lacks_are_spelt_out(run, encoding, letters):
    done = shell("recommend", run, "--user", "ü", "--user", "v", encoding=encoding, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    user, _, item = letters.partition(" ")
    assert f"{user}:" in done.stdout
    assert item not in done.stdout
    done = shell("similar", run, "--item", "b", encoding=encoding, PYTHONIOENCODING=encoding)
    assert item in done.stdout


def test_the_package_is_a_command_too():
    words = [sys.executable, "-m", "vitalrank", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.startswith("vitalrank ")


def test_an_interrupt_while_the_command_loads_is_one_line():
    code = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from vitalrank.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: interrupted.\n")


def test_a_mistyped_command_is_sent_to_its_own_help():
    assert shell("fit", "log.tsv").stderr == "error: Missing option '--out'. See vitalrank fit --help.\n"
    assert shell("fly").stderr.endswith("See vitalrank --help.\n")


@pytest.mark.parametrize("words", [[], ["data"]])
def test_without_a_command_the_help_is_all(words):
    done = shell(*words)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: vitalrank" in done.stdout


def test_colours():
    assert "\x1b[1;31m" in shell("fly", FORCE_COLOR="1").stderr
    assert "31m" not in shell("fly", FORCE_COLOR="1", NO_COLOR="1").stderr
    assert "\x1b" not in shell("fly").stderr
    assert "\x1b" not in shell("--help").stdout


@pytest.mark.parametrize("command", cli.FILES)
def test_help_loads_nothing_heavy(command):
    code = CODE.replace("main()", "\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not {"numpy", "scipy", "numba", "pyarrow", "optuna", "torch", "matplotlib"} & loaded
    files = {f"vitalrank.cli.{file}" for file in cli.FILES.values()}
    assert loaded & files == {f"vitalrank.cli.{cli.FILES[command]}"}  # and no other command's


def test_every_command_is_in_its_file():
    for file in set(cli.FILES.values()):
        own = vars(import_module(f"vitalrank.cli.{file}"))
        assert all(name.replace("-", "_") in own for name, place in cli.FILES.items() if place == file)
    told = shell("--help").stdout
    assert all(f" {name} " in told for name in cli.FILES)


# ---------------------------------------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 5000 + "]" * 5000, "epochs = " + "9" * 5000, "a" + ".a" * 5000 + " = 1", "epochs = 1979-05-27"],
)
def test_a_config_that_python_cannot_hold_is_one_line(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    done = shell("fit", "log.tsv", "--out", str(tmp_path / "a"), "--config", str(tmp_path / "a.toml"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1500


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "{run}", "--bootstrap", "9" * 20],
        ["recommend", "{run}", "--user", "\udcff"],
        ["recommend", "{run}", "--user", "\x1b[2J\n"],
        ["fit", "{log}", "--out", "{loop}"],
        ["fit", "{log}", "--out", "{run}/\udcff", "--sep", "\udcff"],
        ["fit", "{log}", "--out", "{run}-new", "--set", "dim=" + "9" * 5000],
        ["fit", "{log}", "--out", "{run}-new", "--set", "dim=" + "[" * 5000],
        ["fit", "\udcff.tsv", "--out", "{run}-new"],
        ["compare", "{log}", "--out", "{loop}"],
        ["data", "prepare", "{log}", "{log}"],
    ],
)
def test_hostile_words_are_one_line(run, tmp_path, words):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    log = tmp_path / "log.tsv"
    log.write_text("user\titem\n" + "".join(f"u{k % 5}\ti{k % 7}\n" for k in range(35)))
    done = shell(*(word.format(run=run, log=log, loop=tmp_path / "loop") for word in words))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert "\x1b" not in done.stderr
    assert log.read_text().startswith("user\titem\n")


def test_ids_cannot_steer_the_terminal(tmp_path):
    log = vr.Interactions.from_arrays(["\x1b[31mu", "\x1b[31mu", "v", "v"], ["a\nb", "c", "a\nb", "d"])
    vr.MostPopular().fit(log).save(tmp_path / "run")
    done = shell("recommend", str(tmp_path / "run"), "--user", "\x1b[31mu")
    assert done.stdout.startswith("\\x1b[31mu:\n")
    assert (
        "a\\nb" in shell("similar", str(tmp_path / "run"), "--item", "c").stdout + done.stdout or done.returncode == 0
    )
    assert "\x1b" not in done.stdout


def test_an_unexpected_error_is_one_line_that_says_how_to_see_more():
    code = CODE.replace("main()", "")
    code += "\nimport vitalrank.cli.doctor as d\ndef f(): raise KeyError('x')\nd._checks = f\nmain()"
    run = [sys.executable, "-c", code, "doctor"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unexpected KeyError" in done.stderr
    done = subprocess.run(
        run, capture_output=True, text=True, check=False, env={**os.environ, "VITALRANK_TRACEBACK": "1"}
    )
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 1)])
@pytest.mark.parametrize("place", ["before the command", "where Python drops exceptions"])
def test_a_signal_at_an_awkward_moment_ends_the_command_too(name, code, place):
    lines = ["import os, signal, time, vitalrank.cli as c, vitalrank.cli.doctor as d"]
    lines.append("signal.signal(signal.SIGINT, signal.default_int_handler)")  # a job in the background ignores it
    if place == "before the command":
        lines.append(f"c.Commands.parse_args = lambda *_: (os.kill(os.getpid(), signal.{name}), time.sleep(9))")
    else:
        lines += [
            "class Freed:",
            f"    def __del__(self): os.kill(os.getpid(), signal.{name}); time.sleep(0.01)",
            "def checks():",
            "    made = Freed()",
            "    del made",
            "    time.sleep(60)",
            "d._checks = checks",
        ]
    script = "\n".join([CODE.replace("main()", ""), *lines, "main()"])
    done = subprocess.run([sys.executable, "-c", script, "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "error: interrupted.\n")


def test_sigterm_ends_like_ctrl_c_with_its_own_code():
    code = CODE.replace("main()", "")
    code += "\nimport os, signal, vitalrank.cli.doctor as d\n"
    code += "d._checks = lambda: os.kill(os.getpid(), signal.SIGTERM)\nmain()"
    done = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (143, "error: interrupted.\n")


@pytest.mark.parametrize("words", [["-h"], ["fit", "-h"], ["data", "-h"], ["data", "prepare", "-h"], ["paper", "-h"]])
def test_h_is_help_everywhere_and_flags_have_no_type(words):
    done = shell(*words)
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert "<bool>" not in done.stdout
    assert "…" not in done.stdout
