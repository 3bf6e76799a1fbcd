"""Foreign names on the terminal: controls are escaped, other Unicode stays. Standard streams that are closed or full."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from prequential.cli.streams import PrintableStream, printable_streams, report_failure
from prequential.errors import CorpusError
from prequential.printable import format_table, printable, wrapped

PROJECT = Path(__file__).parents[2]
SAMPLE = "sample:christmas_carol"
LEGITIMATE = ["имя", "文字　名", "اسم", "e\u0301", "👩\u200d💻", "a b-c_d", "ZWNJ\u200cx"]
CONTROLS = [
    "\x00", "\x07", "\x1b[2J", "\r", "\x7f", "\x9b31m", "\u202e", "\u2066", "\u2028", "\udcff", "\ud800", "\u200f",
]  # fmt: skip
HOSTILE = "x\x1b[2J\x07\x9b\u202e\nverified: yes\udcff"


# ---- the function


def test_what_controls_a_terminal_becomes_an_escape_and_a_text_keeps_its_lines(tmp_path: Path) -> None:
    assert [printable(name) for name in LEGITIMATE] == LEGITIMATE
    for control in CONTROLS:
        for text in (printable(f"a{control}b"), printable(f"a{control}b", multiline=True)):
            assert control[0] not in text and printable(text) == text
            text.encode()
    line = json.dumps({"name": "".join(CONTROLS)})
    assert json.loads(printable(line)) == json.loads(line)
    assert str(CorpusError("a\x1b[2J\n  b\u202e")) == "a\\x1b[2J b\\u202e"
    table = format_table(["", "bytes"], [["a\nb \x1b", "1,549"], ["prequential", "72"]])
    assert table == "             bytes\na\\nb \\x1b    1,549\nprequential     72"
    assert printable("a\nb\tc") == "a\\nb\\tc" and printable("a\nb\tc", multiline=True) == "a\nb\tc"


# ---- the single exit


def test_a_stream_escapes_what_a_forgotten_place_prints() -> None:
    text = io.StringIO()
    stream = PrintableStream(text, is_output=True)
    print(HOSTILE, "имя", file=stream, flush=True)
    stream.writelines(["\x1b\n"])
    assert text.getvalue() == "x\\x1b[2J\\x07\\u009b\\u202e\nverified: yes\\udcff имя\n\\x1b\n"


def test_a_traceback_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with printable_streams():
        report_failure(None, ValueError("missing\x1b[2J"), verbose=True)
        report_failure(None, KeyError("last"), verbose=False)
    said = capsys.readouterr().err
    assert "ValueError: missing" in said and "\x1b" not in said
    assert "unexpected KeyError: 'last'" in said.splitlines()[-1]


def clean(done: "subprocess.CompletedProcess[bytes]", code: int = 0) -> str:
    """The output, which has no control characters and no line that a name began."""
    assert done.returncode == code, done.stderr
    shown = (done.stdout + done.stderr).decode()
    assert not any(control[0] in shown for control in CONTROLS)
    assert not any(line.startswith("verified: yes") for line in shown.split("\n"))
    return shown


def test_archives_of_a_name_with_controls_are_made_and_read_without_them(run, tmp_path: Path, text: bytes) -> None:
    (tmp_path / HOSTILE).write_bytes(text)
    assert "x\\x1b[2J" in clean(run(tmp_path, "compress", "-v", "-1", HOSTILE))
    for command in (["list"], ["list", "--json"], ["test", "-v"], ["decompress", "-f", "-v"]):
        clean(run(tmp_path, *command, f"{HOSTILE}.pq"))
    assert "\\x1b" in clean(run(tmp_path, "list", "--\x1b[2J", "a"), code=2)


@pytest.mark.parametrize(
    "setting", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_narrow_encoding_shows_escapes(tmp_path: Path, archive: bytes, setting: dict[str, str]) -> None:
    (tmp_path / "имя\udcff.pq").write_bytes(archive)
    command = [sys.executable, "-m", "prequential", "list", "имя\udcff.pq", "missing-文字"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)} | setting
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr.count(b"\n")) == (1, 2, 1)
    assert b"Traceback" not in done.stderr


# ---- closed and full streams


@pytest.fixture
def shell(small_config: Path, tmp_path: Path, text: bytes, archive: bytes):
    """Runs a line of bash in a folder with a text and its archive; $P is the program, $C the options of the small learner."""
    (tmp_path / "a").write_bytes(text)
    (tmp_path / "a.pq").write_bytes(archive)
    settings = {"P": f"{sys.executable} -m prequential", "C": f"--kernels plain --config {small_config}"}
    environment = {**os.environ, **settings, "PYTHONPATH": str(PROJECT)}

    def run(line: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, timeout=120)

    return run


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
@pytest.mark.first_quick
def test_closed_streams_never_reach_an_output_file(shell, tmp_path: Path, closed: str, text: bytes) -> None:
    decode = f"$P decompress -v --kernels plain -o made made.pq {closed}"
    done = shell(f"$P compress -v $C -o made.pq a {closed} && {decode}")
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
    assert (tmp_path / "made").read_bytes() == text


@pytest.mark.parametrize(
    "command", ["decompress --kernels plain -c a.pq", "list a.pq", "--help", "evaluate --baselines none $C a"]
)
@pytest.mark.parametrize("stream", [">&-", "> /dev/full"])
def test_an_output_that_cannot_be_written_is_one_line(shell, command: str, stream: str) -> None:
    for python in ("$P", "env PYTHONUNBUFFERED=1 $P"):
        done = shell(f"{python} {command} {stream}")
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1), done.stderr
        assert b"standard output" in done.stderr


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "link"])
@pytest.mark.first_quick
def test_a_name_that_leads_to_a_pipe_or_device_is_written_directly(
    shell, tmp_path: Path, name: str, text: bytes
) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    done = shell(f"$P decompress --kernels plain -o {name} a.pq | cat")
    assert (done.stdout, done.stderr) == (text, b"")
    assert shell(f"$P decompress --kernels plain -o {name} a.pq > /dev/null").returncode == 0
    done = shell(f"$P decompress --kernels plain -o {name} a.pq > out")
    assert done.returncode == 1 and b"-f" in done.stderr  # a file is replaced, as by every other name, only with -f
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["decompress --kernels plain a.pq -o", "compress $C a -o", "report runs -o"])
@pytest.mark.first_quick
def test_a_process_substitution_takes_the_output_of_every_command(
    shell, tmp_path: Path, command: str, text: bytes
) -> None:
    if "report" in command:
        assert shell("$P evaluate -q --baselines none $C a").returncode == 0
    done = shell(f"$P {command} >(cat > got; touch done) && until [ -e done ]; do sleep 0.1; done")
    assert done.returncode == 0, done.stderr
    got = (tmp_path / "got").read_bytes()
    assert got and ("decompress" not in command or got == text)


def test_prose_is_broken_at_80_columns_below_its_beginning_and_rows_of_tables_are_not():
    name, row = "total cost          ", "a" * 40 + "  " + "b" * 30 + "  " + "c" * 30
    first, second, unbroken = wrapped("\n".join([name + "word " * 20, row])).split("\n")
    assert first.startswith(name + "word") and second.startswith(" " * len(name) + "word") and unbroken == row
    assert max(len(first), len(second)) <= 80 and (first + second).count("word") == 20


def test_a_terminal_shows_the_names_of_a_wide_table_cut_and_all_figures(monkeypatch):
    rows = [("a/" * 60 + "end", "1"), ("b", "2")]
    assert "a/" * 60 in format_table(("", "bytes"), rows)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    table = format_table(("", "bytes"), rows).split("\n")
    assert max(map(len, table)) <= 80 and table[1].startswith("…") and table[1].endswith("a/end      1")


WALK = f"""evaluate --limit 20K {SAMPLE}
evaluate -1 --limit 20K {SAMPLE}
runs list
runs list ladder.jsonl
runs show latest
compare ONE latest
compress rows.jsonl -f -o a.pq
list a.pq
labels -1 rows.jsonl --label parity
heldout -1 --train rows.jsonl --test {SAMPLE} --limit 9K --no-run
forecast ladder.jsonl --target-width 512 --target-bytes 900K -o OUT
sweep --pure --limit 1K --width 16,32 {SAMPLE}"""


@pytest.mark.thorough
def test_a_terminal_of_80_columns_shows_no_longer_line_and_a_pipe_no_longer_row(run, on_terminal, tmp_path):
    rows = ({"text": f"row {i}", "parity": ("even", "odd")[i % 2]} for i in range(100))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "ladder.jsonl").symlink_to(PROJECT / "benchmarks/forecasts/enwik8-contexts/ladder.jsonl.zst")
    for line in WALK.splitlines():
        first = min((path.name for path in tmp_path.glob("runs/*")), default="")
        piped, shown = (line.replace("ONE", first).replace("OUT", name).split() for name in ("pipe", "terminal"))
        done = run(tmp_path, *piped)
        table = [each for each in done.stdout.decode().splitlines() if len(re.findall(r"\S {2,}\S", each)) > 1]
        assert done.returncode == 0 and [row for row in table if len(row) > 80] == [], line
        code, _, text = on_terminal(tmp_path, *shown, columns=80, streams=("stdout",))
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # the colour of the main figure
        assert code == 0 and [each for each in text.splitlines() if len(each) > 80] == [], line
