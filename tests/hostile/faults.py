"""Lets every system call of a command on its files fail in turn, and checks what the command leaves.

    python tests/hostile/faults.py [--command NAME ...] [--kind NAME ...] [--every K]

The calls are those of faults.c, which is compiled with `cc` and loaded with LD_PRELOAD. A process that has compiled all kernels
forks one child for each fault, which runs a command line in a folder of its own, with a checkpoint after every segment. Exactly
one call fails: with ENOSPC, with EIO, or by a transfer of only half of the bytes; `full` and `dead` let all later ones fail.
Then the command is run again without faults, with --resume where there is such an option. A violation is one of these:

- an exit code other than 0 and 1, a signal, a hang;
- with code 1: not exactly one line `prequential: ...` on stderr, an `unexpected` error, or a named file without the kept record;
- with code 0: other results than those of a run without faults, or more than one warning;
- a changed source or record; a target that is neither absent nor complete; a lost checkpoint; a file that is left without one,
  unless the line names it as a valid beginning, which it is;
- the second run fails, differs in any byte, or leaves other files than a run without faults.

Prints one JSON object: command, kind of call, manner, and counts. Exits with 1 after a violation.
"""

import argparse
import ctypes
import errno
import gc
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from interruption import hurried
from prequential_corpora.sources import sample_path
from programs import forked

from prequential.cli.main import main as program
from prequential.evaluation.runs import interrupted_runs
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online import checkpoint

HERE = Path(__file__).resolve().parent
LIBRARY = "PREQUENTIAL_FAULTS"  # names the compiled faults.c in the environment
N_BYTES = 1000
TIME_LIMIT_S = 30
ONCE, ALWAYS, SHORT, SHORT_THEN_FAIL = range(4)  # as in faults.c
WRITE, SYNC, LINK, CREATE, MKDIR, SIZE, READ, OPEN, LIST, REMOVE, MODE, LOOK, MAP = (1 << i for i in range(13))
EVERYTHING = (1 << 13) - 1

SOME = {"ENOSPC": (ONCE, errno.ENOSPC), "EIO": (ONCE, errno.EIO)}
EIO = {"EIO": (ONCE, errno.EIO)}
HALF = {"half": (SHORT, 0)}
KINDS: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {  # calls, and the manners in which they fail
    "write": (WRITE, {**SOME, **HALF, "half, then ENOSPC": (SHORT_THEN_FAIL, errno.ENOSPC)}),
    "fsync": (SYNC, SOME),
    "rename, link": (LINK, SOME),
    "open to write": (CREATE, SOME),
    "mkdir": (MKDIR, SOME),
    "truncate, allocate": (SIZE, SOME),
    "read": (READ, {**EIO, **HALF}),
    "open to read": (OPEN, EIO),
    "list a folder": (LIST, EIO),
    "unlink, rmdir": (REMOVE, EIO),
    "chmod, utime": (MODE, {**EIO, "EPERM": (ALWAYS, errno.EPERM)}),  # EPERM: a file system without permissions
    "stat": (LOOK, EIO),
    "mmap": (MAP, {"ENODEV": (ONCE, errno.ENODEV)}),
    "disk": (WRITE | SYNC | MKDIR, {"full": (ALWAYS, errno.ENOSPC)}),
    "any": (EVERYTHING, {"dead": (ALWAYS, errno.EIO)}),
}
# Of records: values that differ between two runs.
VOLATILE = {
    "time", "wall_s", "verify_wall_s", "environment", "peak_memory_bytes", "findings", "bytes_per_s", "verify_bytes_per_s",
}  # fmt: skip
TEMPORARY = re.compile(r"tmp/")
HIDDEN = re.compile(r"tmp/|(.*/)?\.|runs/RUN/(costs|seconds|encoded.json)$")
SAVED = ("/run.checkpoint", "/archive.pq")  # what a run resumes from


class Report(ctypes.Structure):
    """What faults.c counts, in memory that the child shares with its parent."""

    _fields_ = (
        ("n_calls", ctypes.c_long),
        ("n_faults", ctypes.c_long),
        ("n_linked", ctypes.c_long),
        ("call", ctypes.c_char * 1000),
    )


class Ended(NamedTuple):
    """How a child ended. n_checkpoints: completed before the fault."""

    code: int = 0
    said: str = ""
    n_calls: int = 0
    n_checkpoints: int = 0
    call: str = ""


class Fault(NamedTuple):
    """The nth call of these kinds fails in this manner."""

    kinds: int
    nth: int
    manner: int
    error: int

    @property
    def may_leave_files(self) -> bool:
        """Whether the fault itself keeps the command from finding or deleting its files."""
        return bool(self.kinds & (READ | OPEN | LIST | REMOVE | LOOK))

    @property
    def is_serious(self) -> bool:
        """Whether a run that says nothing about the fault may have lost something."""
        serious = WRITE | SYNC | CREATE | SIZE | READ | LINK | MKDIR
        return bool(self.kinds & serious) and self.manner in (ONCE, SHORT_THEN_FAIL)


class Command(NamedTuple):
    """A command line. given: makes the files that it needs. argv: its arguments in a folder. again: those of the second run."""

    given: Callable[[Path], None]
    argv: Callable[[Path], list[str]]
    again: Callable[[Path], list[str] | None]


RECORD = re.compile(r"; the record is in '([^']+)'")  # the line that could not be appended
# What stays of an output without a checkpoint.
KEPT = re.compile(r"'([^']+)' holds (?:a valid beginning|the complete output)")
ANEW = "this one starts anew"  # what --resume says without a checkpoint


LEARNER = Config(  # both parts, as small as possible
    gpt=GPTConfig(n_layers=1, width=16, n_heads=2, mlp_factor=1, window=4, warmup_updates=1),
    mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4),
    schedule=ScheduleConfig(
        first_segment_symbols=256, segment_symbols=256, row_symbols=32, n_rows=8, history_bits=14, block_symbols=512
    ),
)


# ---- the commands


@dataclass
class Bench:
    """The place of all trials. folder: of one trial, always the same name, because messages and records hold it."""

    scratch: Path
    text: bytes
    shared: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, ctypes.sizeof(Report)))

    @property
    def folder(self) -> Path:
        return self.scratch / "trial"

    @property
    def options(self) -> list[str]:
        return ["--config", str(self.scratch / "config.json"), "--threads", "1"]


def commands(bench: Bench) -> dict[str, Command]:
    """Every command by name."""
    text, learner, threads = bench.text, bench.options, bench.options[2:]

    def file(folder: Path) -> None:
        (folder / "a").write_bytes(text)

    def old(folder: Path) -> None:
        file(folder)
        (folder / "a.pq").write_bytes(b"old")

    def tree(folder: Path) -> None:
        (folder / "a" / "sub").mkdir(parents=True)
        for name, start in (("one", 0), ("sub/two", 300), ("sub/three", 600)):
            (folder / "a" / name).write_bytes(text[start : start + 300])

    def archive(source: Callable[[Path], None]) -> Callable[[Path], None]:
        def given(folder: Path) -> None:
            source(folder)
            run(bench, ["compress", "a", *learner])
            shutil.rmtree(folder / "a") if (folder / "a").is_dir() else (folder / "a").unlink()

        return given

    def model(folder: Path) -> None:
        file(folder)
        (folder / "runs").mkdir()
        (folder / "runs" / "heldout.jsonl").write_bytes(b'{"kind": "heldout"}\n')
        run(bench, ["train", "a", "-o", "model", *learner])

    def measured(folder: Path) -> list[str] | None:
        return None if (folder / "runs" / "heldout.jsonl").read_bytes().count(b"\n") > 1 else heldout

    def stopped(given: Callable[[Path], None], argv: Sequence[str]) -> Callable[[Path], None]:
        """The files that a process leaves when it is killed after its second checkpoint."""
        return lambda folder: (given(folder), run(bench, argv, stop_after=2), None)[-1]

    def fixed(*argv: str) -> Callable[[Path], list[str]]:
        return lambda folder: list(argv)

    def evaluation(folder: Path) -> list[str] | None:
        """Continues the run if there is a draft of it; repeats it unless there is a complete one."""
        if drafts := interrupted_runs(folder / "runs"):
            return ["evaluate", "a", "--verify", "--baselines", "none", "--resume", str(drafts[0]), *learner]
        return None if list(folder.glob("runs/*/record.jsonl")) else evaluate

    def unless(target: str, *argv: str) -> Callable[[Path], list[str] | None]:
        return lambda folder: None if (folder / target).is_dir() else list(argv)

    def forced(target: str, *argv: str) -> Callable[[Path], list[str]]:
        return lambda folder: [*argv, "-f" if (folder / target).exists() else "--resume"]

    compress, decompress = ["compress", "a", *learner], ["decompress", "a.pq", *threads]
    evaluate = ["evaluate", "a", "--verify", "--baselines", "none", "--runs", "runs", *learner]
    train = ["train", "a", "-o", "model", *learner]
    heldout = ["heldout", "--train", "model", "--test", "a", "--runs", "runs", *threads]
    a, pq = ("a", *decompress), ("a.pq", *compress)
    return {
        "compress": Command(file, fixed(*compress), forced(*pq)),
        "compress -f": Command(old, fixed(*compress, "-f"), lambda folder: [*compress, "-f", "--resume"]),
        "compress --resume": Command(stopped(file, compress), fixed(*compress, "--resume"), forced(*pq)),
        "compress FOLDER": Command(tree, fixed(*compress), forced(*pq)),
        "decompress": Command(archive(file), fixed(*decompress), forced(*a)),
        "decompress --resume": Command(stopped(archive(file), decompress), fixed(*decompress, "--resume"), forced(*a)),
        "decompress to a folder": Command(archive(tree), fixed(*decompress), unless(*a, "--resume")),
        "evaluate": Command(file, fixed(*evaluate), evaluation),
        "evaluate --resume": Command(stopped(file, evaluate), lambda folder: evaluation(folder) or [], evaluation),
        "train": Command(file, fixed(*train), unless("model", *train, "--resume")),
        "train --resume": Command(stopped(file, train), fixed(*train, "--resume"), unless("model", *train, "--resume")),
        "heldout": Command(model, fixed(*heldout), measured),
    }


# ---- one process


def run(bench: Bench, argv: Sequence[str], fault: Fault | None = None, *, stop_after: int = 0) -> Ended:
    """Runs a command line in a forked process, in the folder of the trial. stop_after: ends it after so many checkpoints."""
    report = Report.from_buffer(bench.shared)
    ctypes.memset(ctypes.byref(report), 0, ctypes.sizeof(report))
    code = forked(lambda: _child(bench, argv, fault, report, stop_after))
    said = (bench.scratch / "stderr").read_text(errors="replace")
    return Ended(code, said, report.n_calls, report.n_linked, report.call.decode(errors="replace"))


def _child(bench: Bench, argv: Sequence[str], fault: Fault | None, report: Report, stop_after: int) -> int:
    signal.alarm(TIME_LIMIT_S)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(bench.scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(bench.folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(bench.folder / "tmp")
    if stop_after:
        _stop_after(stop_after)
    if fault:
        library = ctypes.CDLL(os.environ[LIBRARY])
        how = fault.kinds, ctypes.c_long(fault.nth), fault.error, fault.manner, ctypes.byref(report)
        library.faults_arm(os.fsencode(bench.folder), *how)
    try:
        code = program(argv)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    gc.collect()  # files that nobody has closed
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _stop_after(n_checkpoints: int) -> None:
    """Lets the process end at once after so many checkpoints, as kill -9 does."""
    write, left = checkpoint.write, [n_checkpoints]

    def counted(*arguments: Any) -> None:
        write(*arguments)
        left[0] -= 1
        if not left[0]:
            os._exit(0)

    checkpoint.write = counted


# ---- what is in a folder


def contents(folder: Path) -> dict[str, Any]:
    """Every file and folder below, without what differs between two runs. Several equal runs count once."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"^runs/(?!\.)[^/]+(?=/)", "runs/RUN", str(path.relative_to(folder)))
        if path.parent.name == "runs" and path.is_dir() and not path.name.startswith("."):
            continue  # its name contains the time
        value = None if path.is_dir() else comparable(path)
        found[name] = value if found.get(name, value) == value else "two runs that differ"
    return found


def comparable(path: Path) -> Any:
    """The contents of a file; of records without times and measurements of the machine."""
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        with suppress(ValueError):  # part of a line
            return [without_volatile(json.loads(line)) for line in data.splitlines()]
    return data


def without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_volatile(each) for name, each in value.items() if name not in VOLATILE}
    return [without_volatile(each) for each in value] if isinstance(value, list) else value


# ---- trials


class Trials:
    """All trials of one command."""

    def __init__(self, bench: Bench, name: str, command: Command) -> None:
        self.bench, self.name, self.command = bench, name, command
        self.template = bench.scratch / "template"
        shutil.rmtree(bench.folder, ignore_errors=True)
        (bench.folder / "tmp").mkdir(parents=True)
        command.given(bench.folder)
        shutil.rmtree(self.template, ignore_errors=True)
        shutil.copytree(bench.folder, self.template, symlinks=True)
        self.given = contents(self.template)
        ended = run(bench, command.argv(bench.folder))
        assert not ended.code and not ended.said, (name, ended)
        self.expected = contents(bench.folder)

    def run(self, fault: Fault) -> Ended:
        """Runs the command with the files that it needs."""
        shutil.rmtree(self.bench.folder)
        shutil.copytree(self.template, self.bench.folder, symlinks=True)
        return run(self.bench, self.command.argv(self.bench.folder), fault)

    def n_calls(self, kinds: int) -> int:
        """How many calls of these kinds a run makes."""
        ended = self.run(Fault(kinds, 0, ONCE, 0))
        assert not ended.code, (self.name, ended)
        return ended.n_calls

    def trial(self, fault: Fault, counts: Counter[str]) -> tuple[str, list[str]]:
        """One fault: the call that failed, and what is wrong."""
        ended, folder = self.run(fault), self.bench.folder
        if not ended.call:
            counts["not reached"] += 1
            return "", []
        counts["tried"] += 1
        counts["ended in one line"] += ended.code == 1
        counts["continued with a warning"] += ended.code == 0 and bool(ended.said)
        counts["continued"] += ended.code == 0 and not ended.said
        wrong = [*wrong_words(ended, fault), *wrong_record(folder, ended), *self.wrong_files(ended, fault)]
        if ended.code or differences(self.expected, contents(folder)):
            argv = self.command.again(folder)
            second = run(self.bench, argv) if argv else Ended()
            found = contents(folder)
            if fault.may_leave_files:  # names in working folders come again, but random ones do not
                is_random = argv is None or fault.manner == ALWAYS or "evaluate" in self.name
                found = self.without_hidden(found, HIDDEN if is_random else TEMPORARY)
            left = differences(self.expected, found)
            if second.code or [line for line in second.said.splitlines() if ANEW not in line]:
                wrong.append(f"the second run ends with {second.code}: {second.said}")
            if left:
                wrong.append(f"after the second run: {left}")
            counts["then identical"] += not (second.code or left)
        if wrong:
            wrong.append(f"first run: {ended.code} {ended.said.strip()}")
        return ended.call, wrong

    def without_hidden(self, found: dict[str, Any], own: re.Pattern[str]) -> dict[str, Any]:
        """The contents of the folder without the working folders and temporary files that a command could not delete."""
        return {name: value for name, value in found.items() if name in self.expected or not own.match(name)}

    def wrong_files(self, ended: Ended, fault: Fault) -> Iterator[str]:
        """What the folder shows after the first run: what is wrong with it.

        Where files cannot be listed, looked at or deleted, hidden and temporary ones may stay.
        """
        found = contents(self.bench.folder)
        if ended.code == 0:
            found = self.without_hidden(found, HIDDEN) if fault.may_leave_files else found
            if left := differences(self.expected, found):
                yield f"code 0, but {left}"
            return
        for name, value in found.items():
            if name in self.expected and value not in (self.expected[name], self.given.get(name, self.expected[name])):
                yield f"{name} is neither old nor complete"
        if missing := [name for name in self.given if name in self.expected and name not in found]:
            yield f"{missing} are lost"
        results = {name: value for name, value in self.expected.items() if value and value != self.given.get(name)}
        is_published = any(found.get(name) == value for name, value in results.items())
        had_one = ended.n_checkpoints or any(name.endswith("run.checkpoint") for name in self.given)
        if had_one and not is_published and not any(name.endswith(SAVED) for name in found):
            yield "the checkpoint is lost"
        named = KEPT.search(ended.said)
        kept = os.path.relpath(named[1], self.bench.folder.resolve()) if named else ""
        complete = [value for value in results.values() if isinstance(value, bytes)]
        if named and not (kept in found and any(value.startswith(found[kept]) for value in complete)):
            yield f"{named[0]}, but it does not"
        if not had_one and not fault.may_leave_files:
            stray = [name for name in found if name not in self.given and name not in self.expected]
            if unnamed := [name for name in stray if not named or name.partition("/")[0] != kept.partition("/")[0]]:
                yield f"left without a checkpoint, and not named: {unnamed}"


def wrong_words(ended: Ended, fault: Fault) -> Iterator[str]:
    """What is wrong with exit code and stderr."""
    lines = [line for line in ended.said.splitlines() if ANEW not in line]
    if ended.code not in (0, 1):
        yield f"exit code {ended.code}"
    if not all(line.startswith("prequential: ") for line in lines) or "unexpected" in ended.said:
        yield "a line of another form"
    if fault.manner != ALWAYS and len(lines) != ended.code and not (ended.code == 0 and len(lines) == 1):
        yield f"{len(lines)} lines"
    # The folder exists; the file is renamed instead; the temporary file gets a name.
    is_harmless = ended.call.split(" ")[0] in ("mkdir", "link") or ended.call == "open64 tmp"
    if ended.call and not ended.code and not lines and fault.is_serious and not is_harmless:
        yield "no line for this failure"
    if (fault.manner == SHORT or fault.error == errno.EPERM) and (ended.code or lines):
        yield "this is not an error"


def wrong_record(folder: Path, ended: Ended) -> Iterator[str]:
    """What is wrong with the file that the line names in which a record was kept. Takes the file away."""
    if named := RECORD.search(ended.said):
        path = folder / named[1]
        try:
            json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            yield f"{named[0]}, but it is not: {error}"
        path.unlink(missing_ok=True)


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Names of files that are missing, new or different."""
    missing = [f"{name} is missing" for name in expected if name not in found]
    new = [f"{name} is left" for name in found if name not in expected]
    other = [f"{name} differs" for name in expected if name in found and expected[name] != found[name]]
    return missing + new + other


# ---- all of them


def is_possible() -> bool:
    """Whether this machine can compile and load faults.c."""
    return sys.platform == "linux" and shutil.which("cc") is not None


def restarted_with_library(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs this file in a process that has loaded faults.c."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        library = f"{folder}/faults.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", HERE / "faults.c", "-o", library, "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": library, LIBRARY: library, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "faults.py"), *arguments]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)


@contextmanager
def prepared() -> Iterator[Bench]:
    """A bench. The kernels are compiled and the modules imported in this process, so that its children need not."""
    torch.set_num_threads(1)
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - where fsync costs nothing
    with hurried(), tempfile.TemporaryDirectory(prefix="faults-", dir=place) as scratch:
        bench = Bench(Path(scratch).resolve(), sample_path("christmas_carol").read_bytes()[:N_BYTES])
        (bench.scratch / "config.json").write_text(json.dumps(LEARNER.to_dict()))
        warm(bench)
        yield bench


def warm(bench: Bench) -> None:
    (bench.folder / "tmp").mkdir(parents=True)
    (bench.folder / "a").write_bytes(bench.text)
    with chdir(bench.folder), Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        for argv in (
            ["compress", "a", *bench.options],
            ["decompress", "a.pq", "-f", *bench.options[2:]],
            ["train", "a", "-o", "model", *bench.options],
            ["evaluate", "a", "--verify", "--baselines", "none", *bench.options],
            ["heldout", "--train", "model", "--test", "a", *bench.options[2:]],
        ):
            assert program(argv) == 0, argv
    gc.freeze()  # the children collect only their own garbage


def table(bench: Bench, names: Sequence[str], kinds: Sequence[str], every: int) -> dict[str, Any]:
    """Counts and violations of every K-th fault of each command and kind."""
    found: dict[str, Any] = {}
    for name, command in commands(bench).items():
        if names and name not in names:
            continue
        trials = Trials(bench, name, command)
        for kind, (mask, manners) in KINDS.items():
            if kinds and kind not in kinds:
                continue
            n_calls = trials.n_calls(mask)
            for manner, (how, error) in manners.items():
                counts: Counter[str] = Counter()
                violations = []
                for nth in range(1, n_calls + 1, every):
                    call, wrong = trials.trial(Fault(mask, nth, how, error), counts)
                    if wrong:
                        violations.append([f"{nth}: {call}", *wrong])
                found.setdefault(name, {}).setdefault(kind, {})[manner] = {**counts, "violations": violations}
                print(name, kind, manner, dict(counts), len(violations), file=sys.stderr, flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--command", nargs="+", default=[], metavar="NAME", help="default: all")
    parser.add_argument("--kind", nargs="+", default=[], metavar="NAME", help="default: all")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="only every K-th call (default: 1)")
    args = parser.parse_args()
    if LIBRARY not in os.environ:
        if not is_possible():
            sys.exit("this needs Linux and a C compiler")
        done = restarted_with_library(sys.argv[1:])
        print(done.stdout, end="")
        return done.returncode
    with prepared() as bench:
        report = table(bench, args.command, args.kind, args.every)
    print(json.dumps(report, indent=1))
    return int(any(row["violations"] for kinds in report.values() for each in kinds.values() for row in each.values()))


if __name__ == "__main__":
    sys.exit(main())
