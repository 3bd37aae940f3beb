"""The command line as a whole: help texts, option errors in one sentence, exit codes, one vocabulary."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support.commands import refused

import manyheads.cli
from manyheads.cli import main
from manyheads.cli.commands import COMMANDS, command_class, command_names
from manyheads.cli.option_errors import command_options, explain

ONE_HOT = ["compile", "--graph", "permutation:8", "--embedding", "one-hot", "--construction", "one-hot"]
TRAIN = ["train", "--graph", "permutation:32", "--embedding", "gaussian:16", "--heads", "2", "--key-width", "6"]
MEASURE = ["measure", "--graph", "permutation:32", "--embedding", "gaussian:16"]


@pytest.fixture(autouse=True)
def _in_a_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


OPTION_ERRORS = [
    (["audit", "compare", "--items", "9", "gpt2", "llama3-8b"], "'gpt2' stands behind an option"),
    ([], "a command is missing: choose from plan, fit, compile, "),
    (["comple"], "there is no command 'comple': did you mean compile?"),
    (["xyzzy"], "there is no command 'xyzzy': manyheads --help lists them"),
    (["plan"], "a question of plan is missing: choose from budget, relations, width, retrieval"),
    (["plan", "--items", "64"], "a question of plan is missing: choose from budget"),
    (["plan", "buget"], "there is no question of plan 'buget': did you mean budget?"),
    (["certify"], "certify needs --graph and --embedding"),
    (["certify", "layer.safetensors", "--graph", "g.csv"], "certify needs --embedding"),
    (["train", "--graph", "permutation:8"], "train needs --embedding, --heads and --key-width"),
    (["export", "layer.safetensors"], "export needs DIRECTORY and --to"),
    ([*TRAIN, "--hedas", "4"], "train has no option --hedas: did you mean --heads?"),
    ([*MEASURE, "--items", "64"], "measure has no option --items: manyheads measure --help lists its options"),
    ([*TRAIN, "--qqqq"], "train has no option --qqqq: manyheads train --help lists its options"),
    (["compile", "--grph", "x"], "compile has no option --grph: did you mean --graph?"),
    (["plan", "budget", "--itmes", "64"], "plan budget has no option --itmes: did you mean --items?"),
    (["plan", "relations", "--relations", "64"], "plan relations has no option --relations"),
    ([*TRAIN, "--rule", "sun"], "unknown rule 'sun' (did you mean sum?): choose from max, softmax, sum, logsumexp"),
    ([*MEASURE, "--rule", "sofmax"], "unknown rule 'sofmax' (did you mean softmax?)"),
    ([*TRAIN, "--engine", "nativ"], "--engine is native or reference, not 'nativ': did you mean native?"),
    ([*TRAIN, "--engine", "x"], "--engine is native or reference, not 'x'"),
    ([*TRAIN, "--engine=nativ"], "--engine is native or reference, not 'nativ': did you mean native?"),
    ([*TRAIN, "--precision", "float16"], "--precision is float32 or float64, not 'float16'"),
    ([*TRAIN, "--positive-weight", "balance"], "--positive-weight is balanced, not 'balance': did you mean balanced?"),
    ([*TRAIN, "--heads"], "--heads needs a whole number"),
    ([*TRAIN, "--heads", "--json"], "--heads needs a whole number"),
    ([*TRAIN, "--learning-rate"], "--learning-rate needs a number"),
    ([*TRAIN, "--engine"], "--engine needs a value: native or reference"),
    ([*TRAIN, "--labels"], "--labels needs a value"),
    ([*TRAIN, "--heads", "many"], "--heads is a whole number, not 'many'"),
    ([*TRAIN, "--heads", "2.5"], "--heads is a whole number, not '2.5'"),
    ([*TRAIN, "--learning-rate", "fast"], "--learning-rate is a number, not 'fast'"),
    (["compile", "--key-width", "wide"], "--key-width is a whole number, not 'wide'"),
    ([*ONE_HOT, "--constants", "1", "2"], "--constants needs 3 values"),
    ([*ONE_HOT, "--constants", "1", "2", "x"], "--constants is a number, not 'x'"),
    ([*ONE_HOT, "--json=yes"], "--json takes no value, not 'yes'"),
    ([*ONE_HOT, "word"], "compile takes no word 'word' here: manyheads compile --help lists its options"),
    (["attend", "layer.safetensors", "cat", "--embeding", "x"], "attend has no option --embeding: did you mean"),
]


@pytest.mark.parametrize(("words", "says"), OPTION_ERRORS, ids=[" ".join(words) for words, _ in OPTION_ERRORS])
def test_an_option_error_is_one_sentence(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert says in refused(words, capsys)


def test_a_reason_that_only_the_parser_knows_is_one_line() -> None:
    box = "╭─ Value error ──╮\n│ Error parsing    │\n│ --heads: too odd │\n│ ──────────────── │\n│ More │\n╰──╯\n"
    words = ["--graph", "permutation:8", "--embedding", "one-hot"]
    assert explain("compile", command_class("compile"), words, box) == "Error parsing --heads: too odd"
    assert explain("compile", command_class("compile"), words, "") == "these options cannot be read"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"manyheads {version('manyheads')}\n"


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"• {name}" in listed for name in COMMANDS)
    assert main(["plan", "--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"• {name}" in listed for name in ("budget", "relations", "width", "retrieval"))


@pytest.mark.parametrize("name", command_names())
def test_every_option_has_a_help_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    options = re.split(r"^. (?=--?[a-z])", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    assert len(options) >= 3
    for option in options:
        assert len(option.split()) > 4, f"{option} explains nothing"


@pytest.mark.parametrize("name", command_names())
def test_the_option_errors_know_the_options_of_the_help_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0
    shown = set(re.findall(r"^. (?:-o \S+, )?(--[a-z][a-z0-9-]*)", capsys.readouterr().out, flags=re.MULTILINE))
    known = {option.names[0] for option in command_options(command_class(name)) if not option.placed}
    assert shown - {"--help"} == known


def test_every_command_has_json_and_each_option_one_meaning() -> None:
    """One vocabulary: words that were used for the same thing before are gone."""
    gone = {"--budget", "--context", "--length", "--max-seconds", "--out", "--export", "--scale", "--max-budget"}
    gone |= {"--save-figure", "--save-heads", "--save-map"}
    for name in command_names():
        names = {option.names[0] for option in command_options(command_class(name))}
        assert "--json" in names
        if name != "paper":
            assert not names & gone, name


def test_no_help_text_is_typed_twice() -> None:
    texts: dict[str, str] = {}
    for path in Path(manyheads.cli.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            for before, after in zip(node.body, node.body[1:], strict=False):
                value = after.value if isinstance(after, ast.Expr) else None
                if isinstance(before, ast.AnnAssign) and isinstance(value, ast.Constant):
                    text = " ".join(str(value.value).split())
                    place = f"{path.name}:{after.lineno}"
                    assert text not in texts, f"{place} says the same as {texts[text]}: {text}"
                    texts[text] = place
    assert len(texts) > 50


class TestAsAProcess:
    def test_exit_codes(self) -> None:
        assert manyheads_process(*ONE_HOT).returncode == 0
        assert manyheads_process(*ONE_HOT, "--key-width", "1").returncode == 1
        bad = manyheads_process(*ONE_HOT, "--key-width", "0")
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr == "manyheads: --key-width is a whole number from 1 to 16,777,216, not 0\n"

    def test_a_reader_who_leaves_early(self) -> None:
        words = f"{sys.executable} -m manyheads compile --graph permutation:8 --embedding one-hot --key-width 64"
        piped = f"{{ {words}; echo $? >&2; }} | true"
        done = subprocess.run(piped, shell=True, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("", "0\n")

    def test_a_help_text_loads_nothing_heavy(self) -> None:
        heavy = ("matplotlib", "scipy", "torch", "rich")
        loaded = (
            "import sys; from manyheads.cli import main; from manyheads.cli.commands import command_names\n"
            "for name in command_names(): main([*name.split(), '--help'])\n"
            f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, timeout=60)
        assert done.stderr == "[]\n"

    @pytest.mark.parametrize("name", ["fit", "train", "block"])
    def test_a_help_text_is_quick(self, name: str) -> None:
        """0.3 to 0.4 s of CPU on a machine at work; a second would be felt."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        assert manyheads_process(name, "--help").returncode == 0
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1


def manyheads_process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyheads", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
