"""Fuzzer of every foreign file that commands read, except archives, models and corpora (mutate.py, checkpoints.py).

    python dev/fuzz/fuzz_records.py --count 10000 --seed 1 [--kind NAME] [--seconds S]

One of the files of record_seeds.py is damaged (damage.py), and a complete command line reads it. The outcome must be success, or
exit code 1 or 2 with printable lines on stderr, each of which begins with `prequential`. There may be no other exception, no
warning of a library, and no change of a file that the command does not name. Time and memory are bounded. JSON and HTML that
a command makes must be well-formed. A resumed draft becomes the archive of an undisturbed run, or nothing is deleted.
"""

import base64
import io
import json
import re
import shutil
import sys
import tempfile
import traceback
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import fuzzing
from damage import damaged_bytes, damaged_json, damaged_lines, damaged_table, damaged_value
from fuzzing import BrokenRuleError, Report, emptied, sandbox
from limits import bounded
from record_seeds import OPTIONS, finished, has_git, quick, seeds
from watch import confined

from prequential.cli import streams
from prequential.cli.main import main as prequential_main
from prequential.errors import PrequentialError
from prequential.evaluation.runs import read_run
from prequential.files.strict_json import parse_json
from prequential.report.markup import SCRIPT

FIGURES = (
    "ledger", "code_bits", "payload_bytes", "parts", "crossings", "tables", "config", "corpus",
)  # fmt: skip
Damage = Callable[[bytes, Random], bytes]
SECONDS, EXTRA_BYTES = 5.0, 256 << 20
MAX_LINE = 2000  # characters on stderr
UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
UNEXPECTED = re.compile(r"unexpected \w+(Error|Exception)")
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Command(NamedTuple):
    """A command line. makes: files that it may make or append to."""

    args: tuple[str, ...]
    makes: tuple[str, ...] = ()


class Case(NamedTuple):
    """Files of which one is damaged, how, and commands of which one reads it."""

    files: tuple[str, ...]
    damage: Damage
    commands: tuple[Command, ...]


def _commands(text: str, *makes: str) -> tuple[Command, ...]:
    """The command of each line. They make what follows -o and --output, and `makes`."""
    return tuple(_command(line.split(), makes) for line in text.strip().splitlines())


def _command(args: list[str], makes: tuple[str, ...]) -> Command:
    named = tuple(word for option, word in pairwise(args) if option in ("-o", "--output"))
    computes = args[0] in ("evaluate", "sweep", "heldout", "monorepo", "compress") or "--score" in args
    return Command((*args, *(OPTIONS if computes else ())), named + makes)


# ---- the kinds


def _reads_runs(folder: str, first: str, second: str) -> tuple[Command, ...]:
    """Commands that read two runs of a folder, or of a file of packed runs; `first` is damaged."""
    first, second = f"{folder}/{first}", f"{folder}/{second}"
    return _commands(f"""
        runs list {folder}
        runs list {folder} --json
        runs show {first}
        runs show {first} --json
        runs pack {folder} -o out.packed
        compare {first} {second}
        compare {second} {first} --json
        compare {first} {first} {second} --group a,a,b
        report {first} -q -o out.html
        report {first} {second} -q -o out.html
        report {second} {first} -c
        sweep text.txt --config both.json --width 16,32 --dry-run --runs {folder}
        sweep text.txt --config both.json --runs {folder} --dry-run --json
    """)


def _reads_ladder(path: str) -> tuple[Command, ...]:
    target = "--target-width 64 --target-bytes 9000 -o out.json"
    return _commands(f"""
        forecast {path} {target}
        forecast {path} {target} --json
        sweep --ladder text.txt --config pure.json --sizes 16x1,24x1 --dry-run --runs {path}
    """)


def _uses_config(path: str) -> tuple[Command, ...]:
    return _commands(f"""
        evaluate tiny.txt --no-run --baselines none --max-memory 64M --config {path}
        compress tiny.txt -o out.pq --max-memory 64M --config {path}
        sweep tiny.txt --runs none --dry-run --config {path}
        heldout --train tiny.txt --test tiny.txt --no-run --max-memory 64M --config {path}
    """)


def _resumes(draft: str, config: str) -> tuple[Command, ...]:
    resume = f"evaluate text.txt --config {config} --baselines gzip --resume {draft}"
    return _commands(f"{resume}\n{resume} --json", "drafts")


RECORD, CURVE, HELDOUT, SCORES = "record.jsonl", "curve.parquet", "measured/heldout.jsonl", "target/scores.jsonl"
SCORE = _commands("forecast target --score forecast.json\nforecast target --score forecast.json --json", SCORES)
SCORE_NEW = _commands("forecast target --score forecast.json --corpus long.txt", SCORES, "target/")
BEYOND = "--target-width 64 --target-bytes 4500 --corpus long.txt -o out.json --json"
PROXY = _commands(f"forecast ladder {BEYOND} --proxy target/run")
NEXT_POINT = _commands("monorepo REPOSITORY --series series.jsonl", "series.jsonl")
APPENDS = _commands("""
    heldout --train tiny.txt --test tiny.txt --config mixer.json --runs measured
""", HELDOUT)  # fmt: skip
CODING = ("costs", "seconds", *(f".archive.pq.prequential/{name}" for name in ("partial", "run.checkpoint", "owner")))
CODED = ("costs", "seconds", "archive.pq")


def _damaged_packed(data: bytes, rng: Random) -> bytes:
    """A file of packed runs in which one run is damaged, or its curves."""

    def change(values: Any, rng: Random) -> Any:
        how = rng.random()
        if how < 0.4:
            table = damaged_table(base64.b64decode(values["curves"]), rng)
            return values | {"curves": base64.b64encode(table).decode()}
        if how < 0.8:
            return values | {"record": damaged_value(values["record"], rng)}
        return damaged_value(values, rng)

    return damaged_lines(data, rng, change)


def _damaged_file(data: bytes, rng: Random) -> bytes:
    """Damage to a file of numbers; sometimes it is empty, or of another length."""
    how = rng.randrange(10)
    if how == 0:
        return rng.choice((b"", data[:-1], data + b"\0", data[: len(data) // 2], data * 2))
    if how == 1:
        return bytes([rng.choice((0, 0xFF, 0x7F))]) * len(data)
    if data[:1] == b"{":
        return damaged_json(data, rng)
    changed = damaged_bytes(data, rng)
    return changed if rng.random() < 0.4 else changed[: len(data)].ljust(len(data), b"\0")


KINDS: dict[str, tuple[Case, ...]] = {
    "record": (
        Case((f"runs/a/{RECORD}",), damaged_json, _reads_runs("runs", "a", "c") * 2),
        Case((f"runs/c/{RECORD}",), damaged_json, _reads_runs("runs", "c", "b") * 2),
        Case((f"ladder/0/{RECORD}", f"ladder/3/{RECORD}"), damaged_json, _reads_ladder("ladder")),
        Case((f"target/run/{RECORD}",), damaged_json, (*SCORE, *PROXY)),
    ),
    "curve": (
        Case((f"runs/a/{CURVE}",), damaged_table, _reads_runs("runs", "a", "c")[5:11]),
        Case((f"runs/c/{CURVE}",), damaged_table, _reads_runs("runs", "c", "b")[5:11]),
        Case((f"ladder/0/{CURVE}", f"ladder/3/{CURVE}"), damaged_table, _reads_ladder("ladder")[:3]),
        Case((f"target/run/{CURVE}",), damaged_table, (*SCORE, *PROXY)),
    ),
    "packed": (
        Case(("runs.packed",), _damaged_packed, _reads_runs("runs.packed", "a", "c") * 2),
        Case(("ladder.packed",), _damaged_packed, _reads_ladder("ladder.packed")),
    ),
    "forecast": (Case(("forecast.json",), damaged_json, SCORE + SCORE_NEW),),
    "appended": (Case((SCORES,), damaged_lines, SCORE), Case((HELDOUT,), damaged_lines, APPENDS)),
    "series": (Case(("series.jsonl",), damaged_lines, NEXT_POINT),),
    "config": tuple(
        Case((path,), damaged_json, _uses_config(path)) for path in ("mixer.json", "both.json", "pure.json")
    ),
    "draft": tuple(
        Case(tuple(f"{draft}/{name}" for name in names), _damaged_file, _resumes(draft, config))
        for draft, names, config in (("drafts/.run-coding", CODING, "both.json"), ("drafts/.run-coded", CODED, "mixer.json"))
    ),
}  # fmt: skip
WEIGHTS = {
    "record": 6, "curve": 6, "packed": 4, "forecast": 3, "appended": 1, "series": 3, "config": 2, "draft": 3,
}  # fmt: skip


# ---- running a command


class Done(NamedTuple):
    """What a command did. error: the last exception that was reported on stderr."""

    code: Any
    out: str
    err: str
    error: BaseException | None
    warned: tuple[str, ...]


def ran(command: Command, box: Path) -> Done:
    """Runs the command in this process, within limits, in the folder `box`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True) for _ in range(2))
    errors: list[BaseException] = []

    def report(name: str | None, error: Exception, *, verbose: bool) -> int:
        errors.append(error)
        return real_report(name, error, verbose=verbose)

    real_report = streams.report_failure
    args = [str(seeds() / "repository") if arg == "REPOSITORY" else arg for arg in command.args]
    with (
        bounded(SECONDS, EXTRA_BYTES),
        nullcontext() if "REPOSITORY" in command.args else confined(box),  # git is started for it
        warnings.catch_warnings(record=True) as caught,
        mock.patch.object(streams, "report_failure", report),
        mock.patch("prequential.cli.main.report_failure", report),
        mock.patch.object(sys, "unraisablehook", sys.unraisablehook),
        mock.patch.object(tempfile, "tempdir", str(box / "tmp")),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        try:
            code: Any = prequential_main(args)
        except SystemExit as end:
            code = end.code
    texts = [stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err)]  # type: ignore[attr-defined]
    return Done(
        code, *texts, errors[-1] if errors else None, tuple(f"{w.filename}:{w.lineno} {w.message}" for w in caught)
    )


def files_in(box: Path) -> dict[str, bytes]:
    """The contents of all files by their path."""
    return {str(path.relative_to(box)): path.read_bytes() for path in sorted(box.rglob("*")) if path.is_file()}


def restore(box: Path, expected: dict[str, bytes]) -> None:
    """Makes the files of the sandbox the expected ones."""
    emptied(box)
    (box / "tmp").mkdir()
    for name, data in expected.items():
        (box / name).parent.mkdir(parents=True, exist_ok=True)
        (box / name).write_bytes(data)


# ---- rules


def judged(command: Command, box: Path, before: dict[str, bytes]) -> str:
    """The outcome of the command. before: the files in the sandbox, the damaged one among them. Raises BrokenRuleError."""
    done = ran(command, box)
    after = files_in(box)
    _check_streams(done)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if strange := sorted(name for name in changed if not name.startswith(command.makes)):
        raise BrokenRuleError(f"changed other files: {strange[:3]}")
    if done.code == 0 and "--json" in command.args:
        for line in done.out.splitlines():
            strict_json(line)
    if done.code == 0 and "-c" in command.args:
        check_html(done.out)
    if "--resume" in command.args:
        _check_resumed(command, done, box, before, after)
    elif done.code:  # a file that was to be appended to may have been made
        if wrong := [name for name in changed if name in before or after.get(name)]:
            raise BrokenRuleError(f"a refused command changed {sorted(wrong)[:3]}")
    else:
        for name in sorted(changed):
            _check_file(name, before.get(name, b""), after.get(name))
    return f"exit {done.code}" + (f", {type(done.error).__name__}" if done.error else "")


def _check_streams(done: Done) -> None:
    if done.warned:
        raise BrokenRuleError(f"warning: {done.warned[0]}")
    if done.error and not isinstance(done.error, PrequentialError):
        raise BrokenRuleError(f"{type(done.error).__name__} {_place(done.error)}: {done.error}")
    if done.code not in (0, 1, 2):
        raise BrokenRuleError(f"exit code {done.code!r}")
    lines = done.err.split("\n")[:-1]
    if (done.code and not any("WARNING" not in line for line in lines)) or done.err[-1:] not in ("", "\n"):
        raise BrokenRuleError(f"no complete line on stderr: {done.err[:300]!r}")
    for line in lines:
        if not line.startswith("prequential") or len(line) > MAX_LINE or UNEXPECTED.search(line):
            raise BrokenRuleError(f"a line on stderr: {line[:300]!r}")
    for text in (done.out, done.err):
        if unsafe := UNSAFE.search(text):
            around = text[max(0, unsafe.start() - 50) : unsafe.end() + 20]
            raise BrokenRuleError(f"unsafe character {unsafe[0]!r} in {around!r}")


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/prequential/" in f.filename]
    return ", ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-2:])


def strict_json(text: str | bytes) -> None:
    """Raises BrokenRuleError unless this is standard JSON."""
    try:
        parse_json(text if isinstance(text, bytes) else text.encode())
    except ValueError as error:
        raise BrokenRuleError(f"not JSON: {error}: {text[:100]!r}") from error


def _check_file(name: str, before: bytes, after: bytes | None) -> None:
    if after is None:
        raise BrokenRuleError(f"deleted {name}")
    kind = Path(name).suffix
    if kind == ".jsonl":
        if not after.startswith(before):
            raise BrokenRuleError(f"lost lines of {name}")
        lines = after.removesuffix(b"\n").split(b"\n")
        strict_json(lines[-1])
        if lines[:-1] != before.removesuffix(b"\n").split(b"\n")[: len(before) and None]:
            raise BrokenRuleError(f"the line of {name} does not stand alone: {lines[-1][:60]!r}")
    elif kind in (".json", ".packed"):
        for text in after.splitlines() if kind == ".packed" else [after]:
            strict_json(text)
    elif kind == ".html":
        check_html(after.decode())


def check_svg(text: str) -> None:
    """Raises BrokenRuleError unless this is XML whose coordinates are finite numbers."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BrokenRuleError(f"SVG is not XML: {error}") from error
    for element in root.iter():
        if "script" in str(element.tag):
            raise BrokenRuleError("a script")
        for name, value in element.attrib.items():
            if name.startswith("on"):
                raise BrokenRuleError(f"attribute {name}")
            if name in ("d", "x", "y", "viewBox") and re.search("nan|inf|e", value):
                raise BrokenRuleError(f"coordinates {name}={value[:80]!r}")


class _Balance(HTMLParser):
    """The names of open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "script" or any(name.startswith("on") for name, _ in attrs):
            raise BrokenRuleError(f"a script: {tag} {attrs}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise BrokenRuleError(f"HTML with a wrong </{tag}>")


def check_html(text: str) -> None:
    """Raises BrokenRuleError unless all elements are closed, no script but our own is in it, and each drawing is XML."""
    parser = _Balance()
    parser.feed(text.replace(f"<script>{SCRIPT}</script>", "", 1))
    parser.close()
    if parser.open:
        raise BrokenRuleError(f"HTML with open elements: {parser.open[:5]}")
    start = depth = 0
    for tag in re.finditer("<svg|</svg>", text):  # the plot of a drawing is one, too, if lines leave it
        if tag[0] == "<svg" and not depth:
            start = tag.start()
        depth += 1 if tag[0] == "<svg" else -1
        if not depth:
            check_svg(text[start : tag.end()])


def _check_resumed(command: Command, done: Done, box: Path, before: dict[str, bytes], after: dict[str, bytes]) -> None:
    """A resumed draft has become the run of record_seeds.finished, or has all its files. An empty file may become longer."""
    draft = command.args[command.args.index("--resume") + 1]
    if done.code:
        if lost := [name for name, data in before.items() if name not in after or (data and after[name] != data)]:
            raise BrokenRuleError(f"a refused draft lost {lost[:3]}")
        return
    if left := [name for name in after if name.startswith(draft)]:
        raise BrokenRuleError(f"a finished draft left {left[:3]}")
    (made,) = {name.split("/")[1] for name in after if name.startswith("drafts/text.txt-")}
    resumed, expected = read_run(box / "drafts" / made), finished(Path(draft).name)
    if resumed.archive.read_bytes() != expected.archive.read_bytes():
        raise BrokenRuleError("another archive than that of an undisturbed run")
    is_changed = any(before[name] != (seeds() / name).read_bytes() for name in before if name.endswith("/costs"))
    for name in FIGURES[:2] if is_changed else FIGURES:  # the checkpoint knows the sum of the learner's costs, no more
        if json.dumps(resumed.record[name]) != json.dumps(expected.record[name]):
            was, now = str(expected.record[name])[:80], str(resumed.record[name])[:80]
            raise BrokenRuleError(f"figures: {name} {now}, not {was}")
    if not is_changed and resumed.curve_table() != expected.curve_table():
        raise BrokenRuleError("figures: another curve")


# ---- a run


WRONG: tuple[tuple[Callable[[str], object], str], ...] = (
    (strict_json, '{"a": NaN}'), (check_svg, "<svg><path d='M1 nan'/></svg>"), (check_svg, "<svg><g></svg>"),
    (check_svg, "<svg onload='x'/>"), (check_html, "<p><b></p>"), (check_html, "<p><script>1</script></p>"),
)  # fmt: skip


def check_itself(box: Path, files: dict[str, bytes]) -> None:
    """Without damage the first command of each case succeeds, and the rules notice what is wrong: else this finds nothing."""
    for case in (case for name, cases in KINDS.items() for case in cases if name != "series" or has_git()):
        assert judged(case.commands[0], box, files) == "exit 0", case
        restore(box, files)
    for check, text in WRONG:
        try:
            check(text)
        except BrokenRuleError:
            continue
        raise AssertionError(text)


@contextmanager
def prepared() -> Iterator[tuple[Path, dict[str, bytes]]]:
    """A sandbox with the seeds, and their contents."""
    with quick(), sandbox() as box:
        shutil.copytree(seeds(), box, dirs_exist_ok=True, ignore=shutil.ignore_patterns("repository"))
        (box / "tmp").mkdir()
        yield box, files_in(box)


def run(count: int, report: Report, *, kind: str | None = None, seconds: float = float("inf")) -> Report:
    """Judges `count` damaged files, or as many as fit into the time. Equal seeds of the report give equal files."""
    rng = Random(report.seed)
    kinds = [name for name, weight in WEIGHTS.items() for _ in range(weight) if name != "series" or has_git()]
    with prepared() as (box, files):
        check_itself(box, files)

        def one() -> None:
            name = kind or rng.choice(kinds)
            case = rng.choices(KINDS[name], [len(case.commands) for case in KINDS[name]])[0]
            target, command = rng.choice(case.files), rng.choice(case.commands)
            damaged = case.damage(files[target], rng)
            (box / target).write_bytes(damaged)
            how = f"{name}: {' '.join(command.args[:2])}"
            report.judge(how, lambda: judged(command, box, {**files, target: damaged}), damaged)
            restore(box, files)

        return report.repeat(count, seconds, one)


if __name__ == "__main__":
    sys.exit(fuzzing.main(run, __doc__ or "", KINDS))
