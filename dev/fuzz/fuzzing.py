"""What the fuzzers share: damage to bytes, a folder to work in, and the report of a run.

They import this first: it finds the modules of tests/ and tests/hostile/.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[2] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "hostile")]

from forge import leb128  # noqa: E402
from limits import peak_bytes  # noqa: E402

NUMBERS = [0, 1, 2, 3, 8, 15, 16, 22, 23, 24, 25, 40, 46, 127, 128, 255, 256, 4096, 1 << 14, 1 << 16, 1 << 24, 1 << 25]
NUMBERS += [(1 << bits) + d for bits in (26, 31, 32, 40, 53, 62, 63, 64, 70) for d in (-1, 0, 1)]


class BrokenRuleError(Exception):
    """The program broke a rule with a mutant."""


def damaged_bytes(data: bytes, rng: Random, words: list[bytes] | None = None) -> bytes:
    """One to eight changes of a few bytes each. words: also inserted, such as numbers in the form of the file."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        start = rng.randint(0, len(data))
        stop = min(len(data), start + rng.randint(1, rng.choice((8, 32, 64))))
        before, part, after = data[:start], data[start:stop], data[stop:]
        how = rng.randrange(11)
        if how < 2:  # a flipped bit
            data = (
                before + bytes([byte ^ 1 << rng.randrange(8) for byte in data[start : start + 1]]) + data[start + 1 :]
            )
        elif how == 2:
            data = before + rng.randbytes(len(part)) + after
        elif how == 3:
            data = before + rng.choice((b"\0", b"\xff", b"\x80", b"\x7f")) * len(part) + after
        elif how == 4:
            data = before + rng.randbytes(rng.randint(1, 8)) + part + after
        elif how == 5:
            word = rng.choice(words) if words else leb128(rng.choice(NUMBERS), rng.choice((0, 0, 0, 5, 10)))
            data = before + word + data[start + rng.randint(0, 1) :]
        elif how < 8:
            data = before + after
        elif how == 8:
            data = before + part * rng.randint(2, 4) + after
        elif how == 9:  # moved
            rest = before + after
            at = rng.randint(0, len(rest))
            data = rest[:at] + part + rest[at:]
        else:
            data = before
    return data


@contextmanager
def sandbox() -> Iterator[Path]:
    """An empty folder, in memory if possible. It is the working directory of the body."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=place) as folder, chdir(folder):
        yield Path(folder)


def emptied(box: Path) -> list[str]:
    """Removes all files in the sandbox. Returns their names."""
    names = sorted(path.name for path in box.iterdir())
    for name in names:
        path = box / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return names


@dataclass
class Report:
    """The outcomes of a run. keep: a folder for mutants that break a rule."""

    seed: int
    keep: Path | None = None
    n_mutants: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0
    slowest_s: float = 0.0
    peak_mib: int = 0

    def judge(self, how: str, judged: Callable[[], str], data: bytes = b"") -> bool:
        """Notes the outcome of one mutant, whose damage is called `how`; whether no rule was broken. data: may be kept."""
        began, outcome = time.monotonic(), "broken"
        try:
            outcome = judged()
        except (Exception, SystemExit) as error:
            self.broken.append(f"{self.n_mutants}: {how}: {type(error).__name__}: {str(error)[:400]}")
            if self.keep:
                self.keep.mkdir(parents=True, exist_ok=True)
                (self.keep / f"seed{self.seed}-{self.n_mutants}").write_bytes(data)
        self.outcomes[f"{how}: {outcome}"] += 1
        self.n_mutants += 1
        self.slowest_s = max(self.slowest_s, round(time.monotonic() - began, 2))
        self.peak_mib = max(self.peak_mib, peak_bytes() >> 20)
        return outcome != "broken"

    def repeat(self, count: int, seconds: float, one: Callable[[], object]) -> "Report":
        """Calls `one`, which judges mutants, until `count` are judged or the time is over."""
        start = time.monotonic()
        while self.n_mutants < count and time.monotonic() - start < seconds:
            one()
        self.seconds = round(time.monotonic() - start, 1)
        return self


def main(run: Callable[..., Report], about: str, kinds: Iterable[str] = ()) -> int:
    """The command line of a fuzzer. run: from count, report and seconds; with kinds, also the one that was chosen or None."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--keep", type=Path, default=Path("mutants"), help="folder for mutants that break a rule")
    if kinds:
        parser.add_argument("--kind", choices=tuple(kinds), help="only this kind")
    args = parser.parse_args()
    more = {"kind": args.kind} if kinds else {}
    report = run(args.count, Report(args.seed, args.keep.absolute()), seconds=args.seconds, **more)
    print(json.dumps(vars(report), indent=1, default=str))
    return 1 if report.broken else 0
