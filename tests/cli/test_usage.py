"""Options: usage errors are one line and exit code 2; help and `list` start at once."""

import ast
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import prequential
from prequential.cli import options
from prequential.cli.main import COMMANDS, build_parser, main
from prequential.exact.matmul import BACKEND_NAMES
from prequential.model.presets import DEVICE_PRESETS, PRESETS, SMALL_N_BYTES, default_for
from prequential.online.runtime import DEVICES, KERNELS

COMMON = ("compress", "decompress", "test")
WITHOUT_TORCH = (
    "import sys; from prequential.cli.main import main; code = main(sys.argv[1:]); print('torch' in sys.modules)"
)


def shown_by(capsys, *words):
    with pytest.raises(SystemExit, match="0"):
        main([*words])
    return capsys.readouterr().out


def test_help_lists_the_commands_in_groups_in_less_than_three_tenths_of_a_second(run, tmp_path):
    def used_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before_s = used_s()  # processor time: other programs on the machine do not count
    done = run(tmp_path, "--help", fresh=True)
    assert used_s() - before_s < 0.3
    shown = done.stdout.decode()
    assert subprocess.run([sys.executable, "-m", "prequential"], capture_output=True).stdout == done.stdout
    for version in ("-V", "--version"):
        assert run(tmp_path, version).stdout.decode() == f"prequential {prequential.__version__}\n"
    for title, commands in COMMANDS.items():
        names = [command.name for command in commands]
        lines = shown.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == names


def test_every_command_explains_itself_shortly_and_wholly_with_an_example_that_it_takes(capsys):
    every = [((command.name,), command) for group in COMMANDS.values() for command in group]
    every += [((*words, action.name), action) for words, command in every for action in command.actions]
    for words, command in every:
        whole, short = shown_by(capsys, *words, "--help"), shown_by(capsys, *words, "-h")
        assert shown_by(capsys, "help", *words) == whole
        for text in (whole, short):
            assert text.startswith(f"usage: prequential {' '.join(words)} ") and command.text.split()[0] in text
        if not command.actions:
            assert f"\nExample: prequential {' '.join(words)}" in short and len(short.splitlines()) <= 50
            build_parser().parse_args([*words, *command.example.split()])
            assert len(re.findall("^  -", short, re.MULTILINE)) <= options.MOST


def test_list_shows_archives_also_of_standard_input_and_continues_after_others(run, archive, text, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive)
    (tmp_path / "b").write_bytes(b"b")
    done = run(tmp_path, "list", "--json", "b", "a.pq", "-", stdin=archive)
    assert done.returncode == 1 and done.stderr.startswith(b"prequential: b: ")
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["archive"] for entry in entries] == ["a.pq", "-"]
    for entry in entries:
        assert (entry["n_bytes"], entry["archive_bytes"]) == (len(text), len(archive))
        assert sum(block["n_bytes"] for block in entry["blocks"]) == len(text)
    done = run(tmp_path, "list", "b")
    assert (done.returncode, done.stdout) == (1, b"")  # no titles without a row


@pytest.mark.thorough
def test_a_mixer_alone_needs_no_torch(text, tmp_path):
    """Its import takes longer than the compression of a small file."""
    (tmp_path / "a").write_bytes(text)
    for args in (
        ["compress", "-1", "a"],
        ["compress", "-3", "-o", "b.pq", "a"],
        ["decompress", "-o", "b", "a.pq"],
        ["test", "b.pq"],
        ["list", "--json", "a.pq"],
        ["evaluate", "-1", "--verify", "a"],
    ):
        command = [sys.executable, "-c", WITHOUT_TORCH, *args]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
        assert done.stdout.splitlines()[-1] == b"False", args
    assert (tmp_path / "b").read_bytes() == text


@pytest.mark.parametrize(
    ("command", "code"),
    [("list none", 1), ("sweep a --seed 1 --seeds 1,2", 2), ("forecast none", 2), ("compare none other", 1),
     ("report none", 1), ("heldout --train - --test -", 2)],
)  # fmt: skip
def test_what_is_refused_at_once_imports_nothing_large(command, code, tmp_path):
    program = (
        "import sys; from prequential.cli.main import main; import atexit\n"
        "atexit.register(lambda: print(*({'torch', 'numba', 'pyarrow', 'datasets', 'matplotlib'} & set(sys.modules))))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", program, *command.split()], cwd=tmp_path, capture_output=True)
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (code, 1, b"\n")


def test_options_and_files_come_in_any_order():
    for line in ("a -o c.pq -1", "-1 a -o c.pq", "-o c.pq -1 a", "-1 -o c.pq -- a"):
        parsed = build_parser().parse_args(["compress", *line.split()])
        assert (parsed.names, parsed.output, parsed.preset) == (["a"], "c.pq", 1)
    assert build_parser().parse_args(["list", "a", "--json", "b"]).names == ["a", "b"]


@pytest.mark.parametrize(
    ("command", "streams", "part"),
    [
        *((command, ("stdin", "stdout", "stderr"), "standard input is a terminal: name a file") for command in COMMON),
        ("compress -c a", ("stdout", "stderr"), "a terminal"),
    ],
)
def test_a_terminal_as_input_or_output_is_explained(on_terminal, command, streams, part, tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    code, _, shown = on_terminal(tmp_path, *command.split(), streams=streams)
    assert code == 1 and part in shown and shown.count("\n") == 1


def test_the_shell_completes_commands(tmp_path):
    pytest.importorskip("argcomplete")
    words = "prequential comp"
    environment = {
        **os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": words, "COMP_POINT": str(len(words)), "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"),
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "prequential"], env=environment, check=False, timeout=60)
    assert {word.strip() for word in (tmp_path / "out").read_text().split()} == {"compress", "compare"}


def test_the_command_line_offers_what_the_library_knows():
    """The command line states these itself, so that `--help` need not import what owns them."""
    (commands,) = (action.choices for action in build_parser()._actions if action.choices)

    def option(command, name):
        return next(action for action in commands[command]._actions if name in action.option_strings)

    assert tuple(options.LEVELS) == tuple(PRESETS)
    for command in ("compress", "evaluate", "sweep"):
        assert option(command, "--backend").choices == BACKEND_NAMES
        assert option(command, "--kernels").choices == KERNELS
        assert option(command, "--device").choices == DEVICES
        assert option(command, "--preset").choices == tuple(DEVICE_PRESETS)
        assert option(command, "--max-memory").default is None


OTHER_OPTIONS = {"--form", "--s"}  # an example, and a variable of the page's style


def texts():
    """The texts of the package that users may read: of more than one word, and no docstrings of functions."""
    for path in sorted(Path(prequential.__file__).parent.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        within = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        docstrings = {id(node.body[0].value) for node in within if isinstance(node.body[0], ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield from [(path.name, node.value)] if " " in node.value else []


def test_texts_name_options_commands_and_levels_that_exist():
    (commands,) = (action.choices for action in build_parser()._actions if action.choices)
    actions = [action for parser in commands.values() for action in parser._actions]
    actions += [a for action in actions if action.nargs == "A..." for p in action.choices.values() for a in p._actions]
    known = {name for action in actions for name in action.option_strings} | {"--version", "--help"} | OTHER_OPTIONS
    wrong, n_named = [], 0
    for name, text in texts():
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]*|(?<![\w.-])-[1-9]\b", text)
        levels = re.findall(r"\b(?:presets?|levels?) (?:from )?(\d+)(?: (?:to|or|and) (\d+))?", text)
        asked = re.findall(r"`prequential ([a-z]+)", text)
        n_named += len(named) + len(asked)
        wrong += [(name, each) for each in named if each not in known]
        wrong += [(name, each) for pair in levels for each in pair if each and int(each) not in options.LEVELS]
        wrong += [(name, each) for each in asked if each not in {*commands, "help"}]
    assert n_named > 50 and wrong == []


def test_fast_and_best_are_the_ends_of_the_levels_which_all_differ():
    assert len(set(PRESETS.values())) == len(PRESETS)
    for word, level in (("--fast", "-1"), ("--best", "-6")):
        given, same = (options.learner_config(build_parser().parse_args(["compress", x, "a"])) for x in (word, level))
        assert given == same


@pytest.mark.thorough
def test_every_command_takes_the_same_level_for_the_same_small_input_and_says_so(tmp_path, text):
    (tmp_path / "a").write_bytes(text)

    def shown(*args):
        command = [sys.executable, "-m", "prequential", *args]
        return subprocess.run(command, cwd=tmp_path, check=True, input=text, capture_output=True)

    assert shown("compress", "-v", "a").stderr.endswith(b" s, -4\n")
    assert shown("compress", "-v", "-o", "piped.pq").stderr.endswith(b" s, -4\n")
    evaluated = shown("evaluate", "--no-run", "--json", "--baselines", "none", "a")
    listed = [json.loads(shown("list", "--json", name).stdout)["config"] for name in ("a.pq", "piped.pq")]
    for config in (*listed, json.loads(evaluated.stdout)["config"]):
        assert prequential.Config.from_dict(config) == default_for(SMALL_N_BYTES - 1) == prequential.preset(4)
    assert default_for(SMALL_N_BYTES) == prequential.preset(5)
