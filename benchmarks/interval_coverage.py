"""How often intervals hold what they are for, on real and on simulated text: the tables in docs/RESULTS.md.

    python benchmarks/interval_coverage.py --simulate
    python benchmarks/interval_coverage.py --simulate-clusters
    python benchmarks/interval_coverage.py FILE... [--adjacent] [--slices 20] [--bytes 100000] [--levels 1 2] [--name NAME]
    python benchmarks/interval_coverage.py --documents HELDOUT.jsonl:A HELDOUT.jsonl:B
    python benchmarks/interval_coverage.py --table

--simulate: 2,000 texts of 96 cells for each Hurst exponent, a trend of two learning curves three times as large as the noise. Of
each, the 95 % interval, and its median width as a multiple of the oracle's, which knows exponent, size and trend.

Each FILE is cut into disjoint slices: --adjacent takes them from its beginning, otherwise they are spread evenly over it. Two
presets are evaluated on each slice, each time from scratch. So every slice gives one difference and its interval. Counted is:

    expected   the mean difference of all other slices, in the interval of a slice (N cases). This mean has an error of its own:
               of 20 exact 95 % intervals, 94.4 % would hold it, and of 90 % intervals 89.1 %.

--documents takes two held-out records of the same clusters of documents. These are the population; samples of 3 to 100 clusters
are drawn from them, with replacement, 500 of each size. Counted are the samples whose interval holds the loss of the population
(of record B), and the difference of both records.

--simulate-clusters: 2,000 corpora of each kind, whose expected loss is known: folders of about ten documents, which share half of
the variance of a rate; and documents whose lengths have heavy tails.

Each FILE and each pair of records appends lines to interval_coverage.jsonl; --table prints them as Markdown. The result is
deterministic.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import format_markdown
from scipy.linalg import toeplitz

from prequential import Curve, Runtime, compress, preset
from prequential.comparison.clusters import Clusters, Grouping, cluster, count_of, rate_interval
from prequential.comparison.documents import compare_documents, read_document_losses
from prequential.comparison.prediction import mean_variance, noise_covariances, text_cells
from prequential.online.coding import Progress
from prequential.records import append_record
from prequential.version import VERSION

RESULTS = Path(__file__).with_name("interval_coverage.jsonl")
LEVELS = (0.9, 0.95)
SAMPLE_SIZES, N_SAMPLES, N_SIMULATED = (3, 10, 20, 50, 100), 500, 2000
TITLES = ("slices", "mean difference, bits", "sd", "level", "expected")
N_TEXTS, N_CELLS, TREND = 2000, 96, 3.0


def learning_curve(data: bytes, level: int, runtime: Runtime) -> Curve:
    """Cumulative ideal bits of a preset at the end of each segment of data."""
    points = {}

    def note(done: Progress, n_bytes: int) -> None:
        points[done.n_bytes] = done.code_bits

    compress(data, config=preset(level), runtime=runtime, on_progress=note)
    points.pop(0, None)
    return Curve(n_bytes=np.array(sorted(points)), bits=np.array([points[n] for n in sorted(points)]))


def cut(data: bytes, n_slices: int, n_bytes: int, *, adjacent: bool) -> list[bytes]:
    """Disjoint slices of data, in order."""
    step = n_bytes if adjacent else len(data) // n_slices
    if step < n_bytes or len(data) < n_slices * step:
        raise SystemExit(f"{len(data):,} bytes have no {n_slices} disjoint slices of {n_bytes:,} bytes")
    return [data[i * step : i * step + n_bytes] for i in range(n_slices)]


def bounds(ours: Curve, theirs: Curve, confidence: float) -> tuple[float, float]:
    """The interval of the expected difference of two curves, in bits."""
    cells = text_cells([(1.0, [ours]), (-1.0, [theirs])])
    if cells is None:
        raise SystemExit("the slices are too short for intervals: give more --bytes")
    bits, half = float(ours.bits[-1] - theirs.bits[-1]), mean_variance(cells).half_width(confidence)
    return bits - half, bits + half


def coverage(bits: Sequence[float], intervals: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The share of the slices' intervals that hold the mean of the other slices. bits: the difference of each slice."""
    n, total = len(bits), sum(bits)
    held = [low <= (total - bits[i]) / (n - 1) <= high for i, (low, high) in enumerate(intervals)]
    return {"expected": sum(held) / n}


def measure(name: str, slices: Sequence[bytes], levels: Sequence[int], runtime: Runtime) -> dict[str, Any]:
    """The coverage of every kind of interval at every level of confidence, as JSON values."""
    curves = []
    for i, data in enumerate(slices):
        theirs, ours = (learning_curve(data, level, runtime) for level in levels)
        curves.append((ours, theirs))
        print(f"{name}: slice {i + 1} of {len(slices)}", file=sys.stderr, flush=True)
    bits = [float(ours.bits[-1] - theirs.bits[-1]) for ours, theirs in curves]
    found = {
        f"{confidence}": coverage(bits, [bounds(ours, theirs, confidence) for ours, theirs in curves])
        for confidence in LEVELS
    }
    return {
        "kind": "slices",
        "name": name,
        "n_slices": len(slices),
        "slice_bytes": len(slices[0]),
        "levels": list(levels),
        "bits": bits,
        "coverage": found,
        "prequential": VERSION,
    }


def simulate(hurst: float) -> list[str]:
    """A row of the table of --simulate."""
    covariances = toeplitz(noise_covariances(N_CELLS, hurst))
    noise = np.linalg.cholesky(covariances) @ np.random.default_rng(0).standard_normal((N_CELLS, N_TEXTS))
    t = (np.arange(20 * N_CELLS) + 0.5) / (20 * N_CELLS)
    trend = ((t + 0.01) ** -0.4 - 0.8 * (t + 0.03) ** -0.5).reshape(N_CELLS, 20).mean(1)
    trend = TREND * (trend - trend.mean()) / trend.std()
    texts = noise.T
    half = np.array([mean_variance(text + trend).half_width(0.95) for text in texts])
    held = np.abs(texts.mean(1)) <= half
    width = np.median(half) / (1.96 * np.sqrt(covariances.mean()))
    return [f"{hurst:g}", f"{held.mean():.3f}", f"{width:.2f}"]


def measure_documents(names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """For each loss of two records: shares of samples whose intervals hold the loss and the difference of all documents."""
    theirs, ours = map(read_document_losses, names)
    compare_documents([theirs, ours])  # raises if the documents differ
    for loss, clusters in ours.losses.items():
        n_bytes, bits = np.array(clusters.n_bytes), np.array(clusters.bits)
        found = {
            "loss": sample_coverage(n_bytes, bits),
            "difference": sample_coverage(n_bytes, bits - np.array(theirs.losses[loss].bits)),
        }
        yield {
            "kind": "documents",
            "name": f"{ours.test['name']}, {loss}",
            "n_documents": clusters.n_documents,
            "n_clusters": len(n_bytes),
            "by": clusters.by,
            "learners": [theirs.learner, ours.learner],
            "coverage": found,
            "prequential": VERSION,
        }


def sample_coverage(n_bytes: NDArray[np.int64], bits: NDArray[np.float64]) -> dict[str, float]:
    """By the number of documents in a sample: the share of 95 % intervals that hold the ratio of all documents' sums."""
    truth, shares = bits.sum() / n_bytes.sum(), {}
    for size in SAMPLE_SIZES:
        random, hits = np.random.default_rng(size), 0
        for _ in range(N_SAMPLES):
            drawn = random.integers(0, len(n_bytes), size)
            hits += holds(cluster(n_bytes[drawn].tolist(), bits[drawn].tolist()), truth)
        shares[str(size)] = hits / N_SAMPLES
    return shares


def holds(clusters: Clusters, truth: float) -> bool:
    """Whether the 95 % interval of these clusters holds the truth, in bits per byte."""
    found = rate_interval(clusters)
    return found is not None and found.low_bits_per_byte <= truth <= found.high_bits_per_byte


def simulated_folders(random: np.random.Generator, n: int, noise: str) -> tuple[list[Clusters], float]:
    """n folders of about ten documents: their clusters by folder and by document, and the expected loss."""

    def draw(k: int) -> NDArray[np.float64]:
        return random.standard_normal(k) if noise == "normal" else random.exponential(size=k) - 1

    folders = np.repeat(np.arange(n), random.poisson(9, n) + 1)
    n_bytes = np.exp(random.normal(7, 0.8, len(folders))).astype(int) + 1
    bits = n_bytes * (2 + 0.3 * draw(n)[folders] + 0.3 * draw(len(folders)))
    by_folder = Grouping("folder", folders.astype(str).tolist())
    return [cluster(n_bytes.tolist(), bits.tolist(), grouping) for grouping in (by_folder, None)], 2.0


def simulated_sizes(random: np.random.Generator, n: int, kind: str) -> tuple[list[Clusters], float]:
    """n documents with lengths of a heavy tail, and the expected loss. Each has a rate of 2 bits/byte, sd 0.4.

    start: and 500 bits to begin with. log: and 0.1 bits/byte less for each e-fold of its length. these: the loss expected of
    documents of these lengths, not of the population.
    """
    tail, shape, costs = kind.split()[0], float(kind.split()[1]), kind.split()[2:]
    lengths = 1000 * (1 - random.random(n)) ** (-1 / shape)
    mean, log_mean = 1000 * shape / (shape - 1), math.log(1000) + 1 / (shape - 1)  # log_mean: of a byte's document
    if tail == "log-normal":
        lengths, mean, log_mean = np.exp(random.normal(7, shape, n)), math.exp(7 + shape**2 / 2), 7 + shape**2
    n_bytes = np.maximum(1, lengths).astype(int)
    if costs == ["start"]:
        bits, truth = 500 + n_bytes * random.normal(2, 0.4, n), 2 + 500 / mean
    else:
        expected = n_bytes * (2 - 0.1 * (np.log(n_bytes) - 7))
        bits = expected + n_bytes * random.normal(0, 0.4, n)
        truth = expected.sum() / n_bytes.sum() if "these" in costs else 2 - 0.1 * (log_mean - 7)
    return [cluster(n_bytes.tolist(), bits.tolist())], float(truth)


def format_simulated_clusters() -> str:
    """Shares of intervals that hold the expected loss, as a Markdown table; of folders: by folder (by document)."""
    tails = ("log-normal 2", "pareto 1.5", "pareto 1.05")
    kinds = [(simulated_folders, noise) for noise in ("normal", "skewed")]
    kinds += [(simulated_sizes, f"{tail} {costs}") for costs in ("start", "log", "log these") for tail in tails]
    rows = []
    for draw, kind in kinds:
        row = [f"{draw.__name__.removeprefix('simulated_')}, {kind}"]
        for n in (3, 10, 30, 100):
            hits = []
            for seed in range(N_SIMULATED):
                found, truth = draw(np.random.default_rng([seed, n]), n, kind)
                hits.append([holds(each, truth) for each in found])
            first, *others = [f"{share:.2f}" for share in np.mean(hits, 0)]
            row.append(first + "".join(f" ({other})" for other in others))
        rows.append(row)
    return format_markdown(("simulated", "3", "10", "30", "100"), rows)


def format_documents(records: Sequence[Mapping[str, Any]]) -> str:
    """The records of `measure_documents` as a Markdown table."""
    rows = [
        [
            record["name"],
            what,
            count_of(record["by"], record["n_clusters"]),
            *(f"{found[str(size)]:.2f}" for size in SAMPLE_SIZES),
        ]
        for record in records
        for what, found in record["coverage"].items()
    ]
    return format_markdown(("population", "of", "clusters", *map(str, SAMPLE_SIZES)), rows)


def format_results(records: Sequence[Mapping[str, Any]]) -> str:
    """The records as a Markdown table, a row for each corpus and level of confidence."""
    rows = []
    for record in records:
        bits = np.array(record["bits"])
        for i, (level, found) in enumerate(record["coverage"].items()):
            head = [record["name"], f"{bits.mean():,.0f}", f"{bits.std(ddof=1):,.0f}"] if i == 0 else ["", "", ""]
            rows.append([*head, f"{float(level):.0%}", f"{found['expected']:.2f}"])
    return format_markdown(TITLES, rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--adjacent", action="store_true")
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--levels", type=int, nargs=2, default=(1, 2))
    parser.add_argument("--name", help="of the row, for one FILE")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--simulate-clusters", action="store_true")
    parser.add_argument("--documents", nargs=2, metavar="RECORD")
    args = parser.parse_args(argv)
    if args.simulate:
        rows = [simulate(hurst) for hurst in (0.5, 0.6, 0.7, 0.8, 0.9)]
        print(format_markdown(("Hurst exponent", "expected", "width, times the oracle's"), rows))
    if args.simulate_clusters:
        print(format_simulated_clusters())
    for path in args.files:
        name = args.name or f"{path.name}, {'adjacent' if args.adjacent else 'spread'}"
        slices = cut(path.read_bytes(), args.slices, args.bytes, adjacent=args.adjacent)
        record = measure(name, slices, args.levels, Runtime(threads=args.threads))
        append_record(RESULTS, record)
    for record in measure_documents(args.documents) if args.documents else ():
        append_record(RESULTS, record)
    if args.table:
        records = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
        print(format_results([record for record in records if record["kind"] == "slices"]))
        print()
        print(format_documents([record for record in records if record["kind"] == "documents"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
