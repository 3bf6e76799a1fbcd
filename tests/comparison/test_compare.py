"""Comparison: differences are exact, intervals have their stated coverage, and runs that are not comparable are refused."""

import tempfile
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.bit_coder import UNIT_BITS
from series import SEGMENT, autoregressive, write_run

from prequential.comparison.compare import Difference, RunGroup, compare
from prequential.comparison.intervals import Bootstrap, block_length, cell_deviations
from prequential.comparison.prediction import half_width, mean_variance
from prequential.errors import ConfigError, CorpusError

UNITS = st.integers(0, 2**32 - 1)  # of one segment


def drawn_units(n_segments: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**30, n_segments)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=40))
def test_differences_are_exact_to_the_unit_in_total_and_after_every_segment(pairs) -> None:
    a, b = (np.array(units, np.int64) for units in zip(*pairs, strict=True))
    with tempfile.TemporaryDirectory() as root:
        runs = [write_run(Path(root, name), units, model=name) for name, units in (("a", a), ("b", b))]
        (difference,) = compare(runs).differences
    assert difference.bits / UNIT_BITS == int((b - a).sum())
    assert (difference.running_bits / UNIT_BITS).tolist() == [0, *np.cumsum(b - a).tolist()]
    assert difference.n_bytes.tolist() == list(range(0, SEGMENT * len(pairs) + 1, SEGMENT))
    assert difference.bits_per_byte == difference.bits / (SEGMENT * len(pairs))


@settings(max_examples=20, deadline=None)
@given(st.lists(UNITS, min_size=64, max_size=90), st.integers(0, 2**64))
def test_a_run_has_no_difference_to_itself_and_an_interval_of_length_0(units, seed) -> None:
    with tempfile.TemporaryDirectory() as root:
        run = write_run(Path(root, "a"), units)
        (difference,) = compare([run, run], bootstrap=Bootstrap(seed=seed, n_resamples=99)).differences
    assert (difference.bits, difference.crossing_byte) == (0, None)
    assert (difference.interval.low_bits, difference.interval.high_bits) == (0, 0)
    assert (difference.long_memory.text_low_bits, difference.long_memory.text_high_bits) == (0, 0)
    assert not difference.running_bits.any()


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
)
def test_exchanging_the_groups_changes_only_the_signs(seed, a_seeds, b_seeds) -> None:
    how = Bootstrap(seed=seed, n_resamples=99)
    with tempfile.TemporaryDirectory() as root:
        a, b = (
            [write_run(Path(root, f"{name}{s}"), drawn_units(70, seed + s), model=name, seed=s) for s in seeds]
            for name, seeds in (("a", a_seeds), ("b", b_seeds))
        )
        (there,), (back,) = compare([*a, *b], bootstrap=how).differences, compare([*b, *a], bootstrap=how).differences
    assert there.bits == -back.bits
    assert (there.interval.low_bits, there.interval.high_bits) == (-back.interval.high_bits, -back.interval.low_bits)
    found, mirrored = there.long_memory, back.long_memory
    assert (found.text_low_bits, found.mean_low_bits) == (-mirrored.text_high_bits, -mirrored.mean_high_bits)
    assert found.text_low_bits <= found.mean_low_bits <= there.bits <= found.mean_high_bits <= found.text_high_bits
    assert (there.running_bits == -back.running_bits).all()


def coverage(series: np.ndarray, block: int | None, how: Bootstrap) -> int:
    """How many of the series (n, m), whose true mean is 0, have 0 in their interval."""
    nothing = np.zeros((1, series.shape[1])), (0,)
    hits = 0
    for one in series:
        deviations = np.sort(cell_deviations(nothing, (one[None], (0,)), block or block_length(one), how))
        hits += bool(deviations[how.n_outside - 1] <= -one.mean() <= deviations[-how.n_outside])
    return hits


def test_the_interval_of_dependent_differences_has_its_nominal_coverage() -> None:
    series, how = autoregressive(400, 1000, 0.5, seed=1), Bootstrap(confidence=0.9, n_resamples=399)
    assert abs(coverage(series, None, how) - 360) <= 18  # three standard deviations
    assert coverage(series, 1, how) < 360 - 36  # single cells ignore the dependence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_cells", "coefficient", "documented"),
    [
        (64, 0, 0.90), (64, 0.5, 0.84), (64, 0.8, 0.84),
        (256, 0, 0.90), (256, 0.5, 0.88), (256, 0.8, 0.88),
        (1000, 0, 0.90), (1000, 0.5, 0.90), (1000, 0.8, 0.89),
    ],
)  # fmt: skip
def test_intervals_have_the_documented_coverage(n_cells, coefficient, documented) -> None:
    n = 1000
    hits = coverage(autoregressive(n, n_cells, coefficient, seed=6), None, Bootstrap(confidence=0.9, n_resamples=199))
    assert abs(hits / n - documented) <= 3 * np.sqrt(documented * (1 - documented) / n) + 0.005  # as rounded


@pytest.mark.thorough
def test_the_interval_over_seeds_has_its_nominal_coverage() -> None:
    n, n_seeds, nominal = 400, 5, 0.9
    random = np.random.default_rng(2)
    texts = autoregressive(n, 500, 0.5, seed=3)
    how = Bootstrap(confidence=nominal, n_resamples=399)
    hits = 0
    for text in texts:
        a, b = random.normal(0, 0.2, (2, n_seeds, 1))  # what each seed adds; the true difference is 0
        theirs, ours = np.broadcast_to(a, (n_seeds, len(text))), b + text
        mean = ours.mean() - theirs.mean()
        sides = (theirs, range(n_seeds)), (ours, range(10, 10 + n_seeds))
        deviations = np.sort(cell_deviations(*sides, block_length(text), how))
        hits += bool(deviations[how.n_outside - 1] <= -mean <= deviations[-how.n_outside])
    assert abs(hits - n * nominal) <= 3 * np.sqrt(n * nominal * (1 - nominal))


def test_the_intervals_of_runs_are_those_of_their_cells_scaled_to_the_corpus(tmp_path: Path) -> None:
    a, b = drawn_units(101, 1), drawn_units(101, 2)
    ends = np.append(SEGMENT * np.arange(1, 101), 100 * SEGMENT + 5)  # a short last segment
    how, block = Bootstrap(seed=7), block_length((b - a)[:100] * UNIT_BITS)
    runs = [write_run(tmp_path / name, units, model=name, ends=ends) for name, units in (("a", a), ("b", b))]
    difference = compare(runs, bootstrap=how).differences[0]
    interval, found, scale = difference.interval, difference.long_memory, int(ends[-1]) / SEGMENT
    deviations = (
        np.sort(cell_deviations(*[(units[None, :100] * UNIT_BITS, (0,)) for units in (a, b)], block, how)) * scale
    )
    total = int((b - a).sum()) * UNIT_BITS
    assert interval.low_bits == pytest.approx(total + deviations[49], rel=1e-12)  # 50th of 1999: 2.5 %
    assert interval.high_bits == pytest.approx(total + deviations[-50], rel=1e-12)
    assert (interval.n_cells, interval.cell_bytes, interval.block_bytes) == (100, SEGMENT, block * SEGMENT)
    mean, text = (half_width(mean_variance((b - a)[:100] * UNIT_BITS * scale), 0.95, n_texts=n) for n in (1, 2))
    bounds = found.mean_low_bits, found.mean_high_bits, found.text_low_bits, found.text_high_bits
    assert bounds == pytest.approx((total - mean, total + mean, total - text, total + text), rel=1e-12)
    assert (found.n_cells, found.cell_bytes, found.confidence) == (100, SEGMENT, 0.95)
    assert "the expected difference" in found.mean_of
    assert "the difference on another text of this length from the same source" in found.text_of


def test_several_seeds_widen_the_intervals_for_long_memory(tmp_path: Path) -> None:
    """Runs whose seeds add a constant to every segment: the cells vary as before, the seeds by 9 bits a segment."""
    units = {name: drawn_units(80, i) for i, name in enumerate("ab")}
    one = [write_run(tmp_path / f"{name}-one", units[name], model=name) for name in "ab"]
    several = [
        write_run(
            tmp_path / f"{name}{seed}", units[name] + (9 << 22) * (seed if name == "b" else 0), model=name, seed=seed
        )
        for name in "ab"
        for seed in range(3)
    ]
    (alone,), (varied,) = compare(one).differences, compare(several).differences
    variance = (9 * 80) ** 2 / 3  # of the mean of 3 seeds, in pairs: 0, 720 and 1,440 bits
    text = mean_variance((units["b"] - units["a"]) * UNIT_BITS * 80)
    half = half_width(text, 0.95, n_texts=2, seeds_variance=variance, seeds_freedom=2)
    assert varied.long_memory.text_high_bits - varied.bits == pytest.approx(half, rel=1e-6)
    assert half > alone.long_memory.text_high_bits - alone.bits
    assert "as many other seeds of A and B" in varied.long_memory.text_of


def test_runs_with_different_segments_have_an_exact_total(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", drawn_units(96, 1))
    b = write_run(tmp_path / "b", drawn_units(64, 2), model="b", ends=96 * np.arange(1, 65))
    (difference,) = compare([a, b]).differences
    assert difference.bits == (drawn_units(64, 2).sum() - drawn_units(96, 1).sum()) * UNIT_BITS
    assert difference.interval.cell_bytes == 96  # the longest segment


def test_the_crossing_is_that_of_the_running_difference(tmp_path: Path) -> None:
    unit = round(1 / UNIT_BITS)
    a = write_run(tmp_path / "a", [10 * unit] * 5)
    b = write_run(tmp_path / "b", [12 * unit, 13 * unit, 9 * unit, 4 * unit, 11 * unit], model="b")
    (difference,) = compare([a, b]).differences  # running: 2, 5, 4, -2, -1
    assert difference.crossing_byte == 3 * SEGMENT + np.ceil(SEGMENT * 4 / 6)
    assert (difference.bits, difference.percent) == (-1, -2)
    assert difference.interval is None  # 5 cells


def test_runs_that_differ_in_the_seed_are_one_group_and_averaged(tmp_path: Path) -> None:
    units = [drawn_units(70, i) for i in range(4)]
    written = [
        write_run(tmp_path / str(i), units[i], model=model, seed=seed)
        for i, (model, seed) in enumerate([("b", 1), ("a", 0), ("b", 0), ("c", 0)])
    ]
    comparison = compare(written)
    assert [(group.label, group.runs, group.seeds) for group in comparison.groups] == [
        ("A", ("2", "0"), (0, 1)),
        ("B", ("1",), (0,)),
        ("C", ("3",), (0,)),
    ]
    difference = comparison.differences[0]
    assert difference.bits == (2 * units[1].sum() - units[0].sum() - units[2].sum()) * UNIT_BITS / 2
    assert "over all seeds of A" in difference.long_memory.mean_of
    assert "under these seeds" in compare(written[1::2]).differences[0].long_memory.mean_of
    assert comparison.choice_bits == 2


def of_ones_own(**arguments) -> dict:
    return {"learner": {"name": "mine:Learner", "arguments": arguments, "n_symbols": 256, "run_symbols": 50}}


def test_the_seed_of_a_learner_of_ones_own_is_its_argument(tmp_path: Path) -> None:
    configs = [of_ones_own(seed=7, size=1), of_ones_own(seed=3, size=1), of_ones_own(seed=3, size=2)]
    configs += [of_ones_own(size=2), of_ones_own(seed="x", size=1), of_ones_own(seed="y", size=1)]
    runs = [write_run(tmp_path / str(i), drawn_units(3, i), config=config) for i, config in enumerate(configs)]
    groups = compare(runs).groups
    assert [(group.runs, group.seeds) for group in groups] == [
        (("1", "0"), (3, 7)),
        (("3", "2"), (0, 3)),
        (("4",), (0,)),
        (("5",), (0,)),
    ]
    assert groups[0].config == of_ones_own(size=1)


def test_a_configuration_measured_again_is_a_group_of_its_own_and_labels_group_any_runs(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(i), drawn_units(3, i), seed=seed) for i, seed in enumerate([0, 1, 0, 1])]
    assert [group.runs for group in compare(runs).groups] == [("0", "1"), ("2", "3")]
    others = [write_run(tmp_path / f"m{i}", drawn_units(3, i), model=str(i)) for i in range(3)]
    assert [group.runs for group in compare(others, groups=["x", "y", "x"]).groups] == [("m0", "m2"), ("m1",)]


def test_runs_over_other_corpora_are_refused_with_the_reason(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [1, 2, 3])
    for name, fields, part in (("b", {"blake2b": "11"}, "BLAKE2b"), ("c", {"ends": [64, 128, 191]}, "bytes")):
        with pytest.raises(CorpusError, match=part):
            compare([a, write_run(tmp_path / name, [1, 2, 3], **fields)])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    a, again = (write_run(tmp_path / str(seed), drawn_units(70, 0), seed=seed) for seed in range(2))
    corpus = {"n_bytes": 70 * SEGMENT, "blake2b": "00"}
    short = write_run(tmp_path / "b", drawn_units(69, 0), model="b", corpus=corpus)
    for runs, error, part in (([a, short], CorpusError, "up to byte 4480"), ([a, again], ConfigError, "one group")):
        with pytest.raises(error, match=part):
            compare(runs)


@pytest.mark.parametrize("values", [{"confidence": 1.0}, {"confidence": 0.0}, {"seed": -1}, {"n_resamples": 38}])
def test_a_bootstrap_out_of_range_is_refused(values) -> None:
    with pytest.raises(ConfigError):
        Bootstrap(**values)


def test_blocks_are_twice_the_rule_for_an_autoregressive_series_and_one_cell_for_noise() -> None:
    m, coefficient = 4096, 0.5
    rule = (1.5 * (2 * coefficient / (1 - coefficient**2)) ** 2 * m) ** (1 / 3)  # G and D of an AR(1), in closed form
    lengths = [block_length(series) for series in autoregressive(50, m, coefficient, seed=4)]
    assert np.median(lengths) == pytest.approx(2 * rule, rel=0.15)
    assert np.median([block_length(series) for series in autoregressive(50, m, 0, seed=5)]) == 1
    assert block_length(np.full(100, 3.0)) == 1


def test_widening_converts_the_normal_distribution_to_students_t() -> None:
    """Table values; two seeds have one degree of freedom."""
    for confidence, freedom, t in ((0.95, 1, 12.7062), (0.9, 1, 6.3138), (0.95, 4, 2.7764), (0.9, 30, 1.6973)):
        normal = NormalDist().inv_cdf((1 + confidence) / 2)
        assert normal * Bootstrap(confidence=confidence).widening(freedom) == pytest.approx(t, rel=1e-4)


def test_fewer_than_64_cells_have_no_interval(tmp_path: Path) -> None:
    for n in (63, 64):
        runs = [write_run(tmp_path / f"{name}{n}", drawn_units(n, i), model=name) for i, name in enumerate("ab")]
        assert (compare(runs).differences[0].interval is None) == (n == 63)


@pytest.mark.parametrize(("n_reference", "n_other"), [(1, 1), (3, 1), (1, 3), (3, 2)])
def test_an_e_value_has_expectation_at_most_1_under_each_seed_of_the_reference(n_reference, n_other) -> None:
    def group(bits):
        names = tuple(map(str, range(len(bits))))
        return RunGroup(label="x", runs=names, seeds=(0,), config={}, bits=tuple(bits), archive_bits=(8,), curves=())

    def log2_e(x):
        a, b = (group(values[:, x]) for values in bits)
        none = np.zeros(2)
        found = Difference(reference=a, other=b, bits=0.0, interval=None, long_memory=None, crossing_byte=None,
                           n_bytes=none, running_bits=none)  # fmt: skip
        return found.log2_e

    random = np.random.default_rng(n_reference)
    bits = [-np.log2(random.dirichlet(np.ones(8), n)) for n in (n_reference, n_other)]  # (S, 8): all possible data
    expectations = np.exp2(-bits[0]) @ np.exp2([log2_e(x) for x in range(8)])
    assert (expectations <= 1 + 1e-12).all()
    assert n_reference > 1 or expectations == pytest.approx(1)
