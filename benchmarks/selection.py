"""The gain on held-out text of choosing data by code length, compared with random choices of equal size.

    python benchmarks/selection.py TEXT CODE BINARY FOREIGN [--level 1] [--config FILE] [--shards 128] [--draws 24] [--threads N]

The pool consists of shards of 4 KiB: one half text of TEXT, one sixteenth exact copies of some of these, one sixteenth random
bytes, and the rest the beginnings of CODE, BINARY and FOREIGN in equal parts. A fixed seed orders them. The target is text of the
wanted kind. Target and held-out text are two later stretches of TEXT, disjoint from the pool and from each other.

Each rule chooses an eighth of the pool. A fresh learner reads the chosen shards in the pool's order, and then the held-out text.
The result is the cost of the held-out text, with learning: L(choice, held-out) - L(choice). Each is compared with every random
choice of the same size. If a choice were itself a random one, it would be placed as well with probability p = (random choices
that cost at most as much + 1) / (draws + 1). The interval is that of the mean of random choices: Student's t over the draws.
Pool, text and learner are fixed in both. Three more rows are references: text shards only, no choice at all, and the target
instead of a choice.

Prints a Markdown table, or one line of JSON with --json. The result is deterministic.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from markdown_table import format_markdown
from numpy.typing import NDArray
from prequential_corpora.corpus import Document

from prequential.comparison.intervals import Bootstrap
from prequential.model.config import Config
from prequential.model.presets import preset
from prequential.online.runtime import Runtime
from prequential.sweeps.selection import ORDERS, PROGRESS, choose, part_bits, rank, score_documents

SHARD_BYTES, SEED, CONFIDENCE = 4096, 0, 0.9
N_SHARDS = 128  # in the pool
TITLES = (
    "choice",
    "held-out bits/byte",
    "against random",
    "90 % interval",
    "as good",
    "p",
    "text",
    "copies",
    "noise",
    "other",
)
RULES = (("surprise", False), ("novel", False), ("progress", False), ("surprise", True), ("progress", True))

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Pool:
    """source: (n,) uint8, the concatenated shards. kinds: the kind of each shard. target, held_out: other text."""

    source: Bytes
    documents: tuple[Document, ...]
    kinds: tuple[str, ...]
    target: Bytes
    held_out: Bytes


@dataclass(frozen=True, kw_only=True)
class Row:
    """A choice and the cost of the held-out text after it.

    less_bits_per_byte: the reduction of that cost compared with the mean of n_draws random choices; low, high: its interval.
    n_as_good: random choices that cost at most as much.
    """

    choice: str
    bits_per_byte: float
    less_bits_per_byte: float
    low: float
    high: float
    n_as_good: int
    n_draws: int
    kinds: dict[str, float]

    @property
    def p(self) -> float:
        """The probability of a rank this good or better, if this choice were itself a random one."""
        return (self.n_as_good + 1) / (self.n_draws + 1)


def build_pool(enwik: Bytes, others: Sequence[Bytes], n_shards: int = N_SHARDS) -> Pool:
    """The pool that the module's text describes. Raises ValueError if a file is too short."""
    random = np.random.default_rng(SEED)
    n_text, n_copies, n_noise = n_shards // 2, n_shards // 16, n_shards // 16
    text = _shards(enwik, n_text)
    copies = [text[i] for i in random.choice(n_text, n_copies, replace=False)]
    noise = list(random.integers(0, 256, (n_noise, SHARD_BYTES), np.uint8))
    n_other = n_shards - n_text - n_copies - n_noise
    rest = [shard for i, data in enumerate(others) for shard in _shards(data, (n_other + i) // len(others))]
    listed = [("text", s) for s in text] + [("copy", s) for s in copies] + [("noise", s) for s in noise]
    listed += [("other", s) for s in rest]
    order = random.permutation(len(listed))
    later_text = enwik[n_text * SHARD_BYTES :]
    size = n_shards // 8 * SHARD_BYTES
    if len(later_text) < 2 * size:
        raise ValueError(f"a text of {len(enwik)} bytes is too short for a pool, a target and a held-out text")
    return Pool(
        source=np.concatenate([listed[i][1] for i in order]),
        documents=tuple(Document(f"shard {n}", n * SHARD_BYTES, SHARD_BYTES) for n in range(len(order))),
        kinds=tuple(listed[i][0] for i in order),
        target=later_text[:size],
        held_out=later_text[-size:],
    )


def _shards(data: Bytes, n: int) -> list[Bytes]:
    if len(data) < n * SHARD_BYTES:
        raise ValueError(f"a file of {len(data)} bytes is too short for {n} shards of {SHARD_BYTES}")
    return [data[i * SHARD_BYTES : (i + 1) * SHARD_BYTES] for i in range(n)]


def choices(pool: Pool, config: Config, runtime: Runtime, n_draws: int) -> Iterator[tuple[str, list[int]]]:
    """The name of each choice and its shards in ascending order; random choices come first. Shard -1 is the target."""
    n = len(pool.documents) // 8
    random = np.random.default_rng(SEED + 1)
    for draw in range(n_draws):
        yield f"random {draw}", sorted(random.choice(len(pool.documents), n, replace=False).tolist())
    text = [i for i, kind in enumerate(pool.kinds) if kind == "text"]
    yield "text alone (oracle)", sorted(random.choice(text, n, replace=False).tolist())
    yield "nothing", []
    for by, with_target in RULES:
        scored = score_documents(
            pool.source, pool.documents, by, config, runtime, target=pool.target if with_target else None
        )
        for order in ORDERS:
            chosen = [c.scored.document for c in choose(rank(scored, order), n * SHARD_BYTES) if c.selected]
            name = f"{by}{', target' if with_target else ''}, {order}"
            yield name, sorted(document.offset // SHARD_BYTES for document in chosen)
        if by == PROGRESS and with_target:
            yield "the target itself", [-1]


def held_out_bits(pool: Pool, chosen: Sequence[int], config: Config, runtime: Runtime) -> float:
    """The cost of the held-out text after the chosen shards, in bits. Shard -1 is the target."""
    parts = [pool.target if i < 0 else pool.source[i * SHARD_BYTES : (i + 1) * SHARD_BYTES] for i in chosen]
    return float(part_bits([*parts, pool.held_out], config, runtime)[-1])


def measure(pool: Pool, config: Config, runtime: Runtime, n_draws: int) -> list[Row]:
    """A row for the mean of the random choices, then a row for each other choice."""
    costs, kinds = {}, {}
    for name, chosen in choices(pool, config, runtime, n_draws):
        costs[name] = held_out_bits(pool, chosen, config, runtime) / len(pool.held_out)
        chosen_kinds = [pool.kinds[i] for i in chosen if i >= 0]
        kinds[name] = {kind: chosen_kinds.count(kind) for kind in ("text", "copy", "noise", "other")}
        print(f"{name}: {costs[name]:.4f} {kinds[name]}", file=sys.stderr, flush=True)
    drawn = [costs[f"random {draw}"] for draw in range(n_draws)]
    mean, half = statistics.fmean(drawn), half_width(drawn)
    average = {
        kind: round(sum(kinds[f"random {d}"][kind] for d in range(n_draws)) / n_draws, 1) for kind in kinds["nothing"]
    }
    named = {name: cost for name, cost in costs.items() if not name.startswith("random ")}
    rows = {
        f"random, mean of {n_draws}": (mean, average),
        **{name: (cost, kinds[name]) for name, cost in named.items()},
    }
    return [
        Row(
            choice=name,
            bits_per_byte=cost,
            less_bits_per_byte=mean - cost,
            low=mean - cost - half,
            high=mean - cost + half,
            n_as_good=sum(other <= cost for other in drawn),
            n_draws=n_draws,
            kinds=of_each,
        )
        for name, (cost, of_each) in rows.items()
    ]


def half_width(drawn: Sequence[float]) -> float:
    """Half the width of the 90 % interval of the mean of random choices, by Student's t."""
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    t = z * Bootstrap(confidence=CONFIDENCE).widening(len(drawn) - 1)
    return t * statistics.stdev(drawn) / len(drawn) ** 0.5


def format_rows(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    cells = [
        [
            r.choice, f"{r.bits_per_byte:.4f}", f"{-r.less_bits_per_byte:+.4f}", f"[{-r.high:+.4f}, {-r.low:+.4f}]",
            f"{r.n_as_good} of {r.n_draws}", f"{r.p:.2f}",
            *(str(n) for n in r.kinds.values()),
        ]
        for r in rows
    ]  # fmt: skip
    return format_markdown(TITLES, cells)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs=4, type=Path, metavar="FILE")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--shards", type=int, default=N_SHARDS)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.draws < 3:
        parser.error("--draws: an interval needs at least 3 draws")
    enwik, *others = (np.fromfile(path, np.uint8) for path in args.files)
    config = Config.from_dict(json.loads(args.config.read_text())) if args.config else preset(args.level)
    pool = build_pool(enwik, others, args.shards)
    rows = measure(pool, config, Runtime(threads=args.threads), args.draws)
    print(json.dumps([asdict(row) for row in rows]) if args.json else format_rows(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
