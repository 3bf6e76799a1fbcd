"""Lets every system call of a command on its files fail in turn, and checks what the command leaves.

    python tests/hostile/faults.py [--command NAME ...] [--kind NAME ...] [--every K]

The calls are those of faults.c, which is compiled with `cc` and loaded with LD_PRELOAD. A process that has compiled all kernels
forks one child for each fault, which runs a command line in a folder of its own, with a checkpoint after every segment. Exactly
one call fails: with ENOSPC, with EIO, or by a transfer of only half of the bytes; `full` and `dead` let all later ones fail.
Then the command is run again without faults, with --resume where there is such an option. A violation is one of these:

- an exit code other than 0 and 1, a signal, a hang;
- with code 1: not exactly one line `prequential: ...` on stderr, an `unexpected` error, or a named file without the kept record;
- with code 0: other results than those of a run without faults, or more than one warning;
- a changed source or record; a target that is neither absent nor complete; a lost checkpoint; a file that is left without one;
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
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from interruption import hurried
from prequential_corpora.sources import sample_path
from programs import HERE, forked

from prequential.cli.main import main as program
from prequential.evaluation.runs import interrupted_runs
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online import checkpoint

LIBRARY = "PREQUENTIAL_FAULTS"  # names the compiled faults.c in the environment
TEXT = sample_path("christmas_carol").read_bytes()[:1000]
TIME_LIMIT_S = 30
ONCE, ALWAYS, SHORT, SHORT_THEN_FAIL = range(4)  # as in faults.c
WRITE, SYNC, LINK, CREATE, MKDIR, SIZE, READ, OPEN, LIST, REMOVE, MODE, LOOK, MAP = (1 << i for i in range(13))
CANNOT_CLEAN = READ | OPEN | LIST | REMOVE | LOOK  # they keep a command from finding or deleting its files
MUST_BE_SAID = WRITE | SYNC | CREATE | SIZE | READ | LINK | MKDIR
EIO = {"EIO": (ONCE, errno.EIO)}
SOME = {"ENOSPC": (ONCE, errno.ENOSPC), **EIO}
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
    "any": ((1 << 13) - 1, {"dead": (ALWAYS, errno.EIO)}),
}
VOLATILE = re.compile(
    r"time|.*wall_s|environment|peak_memory_bytes|findings|.*bytes_per_s"
)  # in records: differ between runs
HIDDEN = re.compile(r"tmp/|(.*/)?\.|runs/RUN/(costs|seconds)$")
RECORD = re.compile(r"; the record is in '([^']+)'")  # the line that could not be appended
ANEW = "this one starts anew"  # what --resume says without a checkpoint
LEARNER = Config(  # both parts, as small as possible
    gpt=GPTConfig(n_layers=1, width=16, n_heads=2, mlp_factor=1, window=4, warmup_updates=1),
    mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=4),
    schedule=ScheduleConfig(
        first_segment_symbols=256, segment_symbols=256, row_symbols=32, n_rows=8, history_bits=14, block_symbols=512
    ),
)


class Counts(ctypes.Structure):
    """What faults.c counts, in memory that the child shares with its parent. n_linked: checkpoints before the fault."""

    _fields_ = (
        ("n_calls", ctypes.c_long),
        ("n_faults", ctypes.c_long),
        ("n_linked", ctypes.c_long),
        ("call", ctypes.c_char * 1000),
    )


class Ended(NamedTuple):
    """How a child ended. call: the one that failed."""

    code: int = 0
    said: str = ""
    n_calls: int = 0
    n_checkpoints: int = 0
    call: str = ""

    @property
    def lines(self) -> list[str]:
        return [line for line in self.said.splitlines() if ANEW not in line]


class Fault(NamedTuple):
    """The nth call of these kinds fails in this manner."""

    kinds: int
    nth: int
    manner: int
    error: int


class Command(NamedTuple):
    """A command line, what makes the files that it needs, and what it makes. resumed: after a kill at its second checkpoint."""

    argv: str
    target: str
    given: tuple[str, ...] = ("file",)
    resumed: bool = False

    def again(self, folder: Path) -> str | None:
        """The second run: it resumes, unless the target is complete."""
        if self.argv.startswith("evaluate"):
            drafts = interrupted_runs(folder / "runs")
            is_done = not drafts and list(folder.glob(f"{self.target}/*/record.jsonl"))
            where = f"--resume {drafts[0]}" if drafts else "--runs runs"
            return None if is_done else self.argv.replace("--runs runs", where)
        if self.argv.startswith("heldout"):
            return None if (folder / self.target).read_bytes().count(b"\n") > 1 else self.argv
        if (folder / self.target).is_dir():
            return None
        return f"{self.argv} {'-f' if (folder / self.target).exists() else '--resume'}"


COMPRESS, DECOMPRESS, TRAIN = "compress a LEARNER", "decompress a.pq THREADS", "train a -o model LEARNER"
EVALUATE = "evaluate a --verify --baselines none --runs runs LEARNER"
COMMANDS = {
    "compress": Command(COMPRESS, "a.pq"),
    "compress -f": Command(f"{COMPRESS} -f", "a.pq", ("file", "old")),
    "compress --resume": Command(COMPRESS, "a.pq", resumed=True),
    "compress FOLDER": Command(COMPRESS, "a.pq", ("tree",)),
    "decompress": Command(DECOMPRESS, "a", ("file", COMPRESS, "rm")),
    "decompress --resume": Command(DECOMPRESS, "a", ("file", COMPRESS, "rm"), resumed=True),
    "decompress to a folder": Command(DECOMPRESS, "a", ("tree", COMPRESS, "rm")),
    "evaluate": Command(EVALUATE, "runs"),
    "evaluate --resume": Command(EVALUATE, "runs", resumed=True),
    "train": Command(TRAIN, "model"),
    "train --resume": Command(TRAIN, "model", resumed=True),
    "heldout": Command("heldout --train model --test a --runs runs THREADS", "runs/heldout.jsonl", ("file", "records", TRAIN)),
}  # fmt: skip


def contents(folder: Path) -> dict[str, Any]:
    """Every file and folder below, without what differs between two runs. Several equal runs count once."""
    seen: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = re.sub(r"^runs/(?!\.)[^/]+(?=/)", "runs/RUN", str(path.relative_to(folder)))
        if path.parent.name == "runs" and path.is_dir() and not path.name.startswith("."):
            continue  # its name contains the time
        value: Any = None if path.is_dir() else path.read_bytes()
        if path.suffix == ".jsonl":
            with suppress(ValueError):  # part of a line
                value = [steady(json.loads(line)) for line in value.splitlines()]
        seen[name] = value if seen.get(name, value) == value else "two runs that differ"
    return seen


def steady(value: Any) -> Any:
    """A record without times and measurements of the machine."""
    if isinstance(value, dict):
        return {name: steady(each) for name, each in value.items() if not VOLATILE.fullmatch(name)}
    return [steady(each) for each in value] if isinstance(value, list) else value


def differences(expected: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """Names of files that are missing, new or different."""
    names = sorted(expected.keys() | seen.keys())
    how = {n: "left" if n not in expected else "missing" if n not in seen else "other" for n in names}
    return [f"{n}: {how[n]}" for n in names if how[n] != "other" or expected[n] != seen[n]]


class Trials:
    """All trials of one command. scratch: holds the folder of one trial, always of the same name, which messages hold."""

    def __init__(self, scratch: Path, name: str) -> None:
        self.scratch, self.folder, self.template = scratch, scratch / "trial", scratch / "template"
        self.shared = mmap.mmap(-1, ctypes.sizeof(Counts))
        self.name, self.command = name, COMMANDS[name]
        shutil.rmtree(self.template, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "tmp").mkdir(parents=True)
        for step in self.command.given:
            self.prepare(step)
        if self.command.resumed:
            self.start(self.command.argv, n_checkpoints=2)
        shutil.copytree(self.folder, self.template, symlinks=True)
        self.given = contents(self.template)
        ended = self.run()
        assert not ended.code and not ended.said, (name, ended)
        self.expected = contents(self.folder)

    def prepare(self, step: str) -> None:
        a = self.folder / "a"
        if step == "file":
            a.write_bytes(TEXT)
        elif step == "tree":
            (a / "sub").mkdir(parents=True)
            for name, start in (("one", 0), ("sub/two", 300), ("sub/three", 600)):
                (a / name).write_bytes(TEXT[start : start + 300])
        elif step == "old":
            (self.folder / "a.pq").write_bytes(b"old")
        elif step == "records":
            (self.folder / "runs").mkdir()
            (self.folder / "runs" / "heldout.jsonl").write_bytes(b'{"kind": "heldout"}\n')
        elif step == "rm":
            shutil.rmtree(a) if a.is_dir() else a.unlink()
        else:
            assert not self.start(step).code, step

    def run(self, fault: Fault | None = None) -> Ended:
        """Runs the command with the files that it needs."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.template, self.folder, symlinks=True)
        argv = self.command.again(self.folder) if self.command.resumed else self.command.argv
        return self.start(argv or "", fault)

    def start(self, argv: str, fault: Fault | None = None, *, n_checkpoints: int = 0) -> Ended:
        """Runs a command line in a forked process. n_checkpoints: it ends after so many, as with kill -9."""
        counts = Counts.from_buffer(self.shared)
        ctypes.memset(ctypes.byref(counts), 0, ctypes.sizeof(counts))
        code = forked(lambda: self.child(words_of(argv, self.scratch), fault, counts, n_checkpoints))
        said = (self.scratch / "stderr").read_text(errors="replace")
        return Ended(code, said, counts.n_calls, counts.n_linked, counts.call.decode(errors="replace"))

    def child(self, words: Sequence[str], fault: Fault | None, counts: Counts, n_checkpoints: int) -> int:
        signal.alarm(TIME_LIMIT_S)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(self.scratch / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(self.folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder / "tmp")
        write, left = checkpoint.write, [n_checkpoints]

        def counted(*arguments: Any) -> None:
            write(*arguments)
            left[0] -= 1
            if not left[0]:
                os._exit(0)

        checkpoint.write = counted
        if fault:
            library, where = ctypes.CDLL(os.environ[LIBRARY]), os.fsencode(self.folder)
            library.faults_arm(
                where, fault.kinds, ctypes.c_long(fault.nth), fault.error, fault.manner, ctypes.byref(counts)
            )
        try:
            code = program(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 98
        gc.collect()  # files that nobody has closed
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def trial(self, fault: Fault, counts: Counter[str]) -> list[str]:
        """One fault: what is wrong, after the name of the call that failed."""
        ended = self.run(fault)
        if not ended.call:
            counts["not reached"] += 1
            return []
        counts["tried"] += 1
        counts["ended in one line" if ended.code else f"continued{' with a warning' * bool(ended.said)}"] += 1
        wrong = [*wrong_words(ended, fault), *self.wrong_record(ended), *self.wrong_files(ended, fault)]
        if ended.code or differences(self.expected, contents(self.folder)):
            argv = self.command.again(self.folder)
            second, seen = self.start(argv) if argv else Ended(), contents(self.folder)
            if fault.kinds & CANNOT_CLEAN:
                # names in working folders come again, but random ones do not
                is_random = argv is None or fault.manner == ALWAYS or "evaluate" in self.name
                seen = self.without(HIDDEN if is_random else re.compile("tmp/"), seen)
            left = differences(self.expected, seen)
            if second.code or second.lines:
                wrong.append(f"the second run ends with {second.code}: {second.said}")
            if left:
                wrong.append(f"after the second run: {left}")
            counts["then identical"] += not (second.code or left)
        return wrong and [ended.call, *wrong, f"first run: {ended.code} {ended.said.strip()}"]

    def without(self, own: re.Pattern[str], seen: dict[str, Any]) -> dict[str, Any]:
        """The contents of the folder without the working folders and temporary files that a command could not delete."""
        return {name: value for name, value in seen.items() if name in self.expected or not own.match(name)}

    def wrong_record(self, ended: Ended) -> Iterator[str]:
        """What is wrong with the file that the line names in which a record was kept. Takes the file away."""
        if named := RECORD.search(ended.said):
            try:
                json.loads((self.folder / named[1]).read_bytes())
            except (OSError, ValueError) as error:
                yield f"{named[0]}, but it is not: {error}"
            (self.folder / named[1]).unlink(missing_ok=True)

    def wrong_files(self, ended: Ended, fault: Fault) -> Iterator[str]:
        """What is wrong in the folder. Where files cannot be listed or deleted, hidden and temporary ones may stay."""
        seen = contents(self.folder)
        if ended.code == 0:
            seen = self.without(HIDDEN, seen) if fault.kinds & CANNOT_CLEAN else seen
            yield from (f"code 0, but {each}" for each in differences(self.expected, seen))
            return
        for name, value in seen.items():
            if name in self.expected and value not in (self.expected[name], self.given.get(name, self.expected[name])):
                yield f"{name} is neither old nor complete"
        yield from (f"{name} is lost" for name in self.given if name in self.expected and name not in seen)
        results = {name: value for name, value in self.expected.items() if value and value != self.given.get(name)}
        is_published = any(seen.get(name) == value for name, value in results.items())
        had_one = ended.n_checkpoints or any(name.endswith("run.checkpoint") for name in self.given)
        if had_one and not is_published and not any(name.endswith(("/run.checkpoint", "/archive.pq")) for name in seen):
            yield "the checkpoint is lost"
        stray = [name for name in seen if name not in self.given and name not in self.expected]
        if stray and not had_one and not fault.kinds & CANNOT_CLEAN:
            yield f"left without a checkpoint: {stray}"


def wrong_words(ended: Ended, fault: Fault) -> Iterator[str]:
    """What is wrong with exit code and stderr."""
    if ended.code not in (0, 1):
        yield f"exit code {ended.code}"
    if not all(line.startswith("prequential: ") for line in ended.lines) or "unexpected" in ended.said:
        yield "a line of another form"
    if fault.manner != ALWAYS and len(ended.lines) not in (ended.code, 1):
        yield f"{len(ended.lines)} lines"
    # The folder exists; the file is renamed instead; the temporary file gets a name.
    is_harmless = ended.call.split(" ")[0] in ("mkdir", "link") or ended.call == "open64 tmp"
    is_serious = fault.kinds & MUST_BE_SAID and fault.manner in (ONCE, SHORT_THEN_FAIL)
    if not ended.code and not ended.lines and is_serious and not is_harmless:
        yield "no line for this failure"
    if (fault.manner == SHORT or fault.error == errno.EPERM) and (ended.code or ended.lines):
        yield "this is not an error"


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


def words_of(argv: str, scratch: Path) -> list[str]:
    options = f"--config {scratch / 'config.json'} --threads 1"
    return argv.replace("LEARNER", options).replace("THREADS", "--threads 1").split()


def warm(scratch: Path) -> None:
    """Loads modules and kernels into this process, so that its children need not."""
    (scratch / "config.json").write_text(json.dumps(LEARNER.to_dict()))
    (scratch / "warm").mkdir()
    with chdir(scratch / "warm"), Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        Path("a").write_bytes(TEXT)
        for argv in (COMPRESS, f"{DECOMPRESS} -f", TRAIN, EVALUATE, COMMANDS["heldout"].argv):
            assert program(words_of(argv, scratch)) == 0, argv
    gc.freeze()  # the children collect only their own garbage


def table(scratch: Path, names: Sequence[str], kinds: Sequence[str], every: int) -> dict[str, Any]:
    """Counts and violations of every K-th fault of each command and kind."""
    rows: dict[str, Any] = {}
    for name in names:
        trials = Trials(scratch, name)
        for kind in kinds:
            mask, manners = KINDS[kind]
            n_calls = trials.run(Fault(mask, 0, ONCE, 0)).n_calls
            for manner, (how, error) in manners.items():
                counts: Counter[str] = Counter()
                wrong = [trials.trial(Fault(mask, nth, how, error), counts) for nth in range(1, n_calls + 1, every)]
                row = {**counts, "violations": [each for each in wrong if each]}
                rows.setdefault(name, {}).setdefault(kind, {})[manner] = row
                print(name, kind, manner, dict(counts), len(row["violations"]), file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--command", nargs="+", default=list(COMMANDS), metavar="NAME", help="default: all")
    parser.add_argument("--kind", nargs="+", default=list(KINDS), metavar="NAME", help="default: all")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="only every K-th call (default: 1)")
    args = parser.parse_args()
    if LIBRARY not in os.environ:
        if not is_possible():
            sys.exit("this needs Linux and a C compiler")
        done = restarted_with_library(sys.argv[1:])
        print(done.stdout, end="")
        return done.returncode
    torch.set_num_threads(1)
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112 - where fsync costs nothing
    with hurried(), tempfile.TemporaryDirectory(prefix="faults-", dir=place) as name:
        scratch = Path(name).resolve()
        warm(scratch)
        report = table(scratch, args.command, args.kind, args.every)
    print(json.dumps(report, indent=1))
    return int(any(row["violations"] for kinds in report.values() for each in kinds.values() for row in each.values()))


if __name__ == "__main__":
    sys.exit(main())
