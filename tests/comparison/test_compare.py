"""Comparison: differences are exact, intervals have their stated coverage, and runs that are not comparable are refused."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.bit_coder import UNIT_BITS
from series import SEGMENT, write_run

from prequential.comparison.compare import Difference, RunGroup, compare
from prequential.comparison.differences import sentence
from prequential.comparison.prediction import Intervals, mean_variance
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
@given(st.lists(UNITS, min_size=64, max_size=90))
def test_a_run_has_no_difference_to_itself_and_an_interval_of_length_0(units) -> None:
    with tempfile.TemporaryDirectory() as root:
        run = write_run(Path(root, "a"), units)
        (difference,) = compare([run, run]).differences
    assert (difference.bits, difference.crossing_byte) == (0, None)
    assert (difference.intervals.text_low_bits, difference.intervals.text_high_bits) == (0, 0)
    assert not difference.running_bits.any()


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
)
def test_exchanging_the_groups_changes_only_the_signs(seed, a_seeds, b_seeds) -> None:
    with tempfile.TemporaryDirectory() as root:
        a, b = (
            [write_run(Path(root, f"{name}{s}"), drawn_units(70, seed + s), model=name, seed=s) for s in seeds]
            for name, seeds in (("a", a_seeds), ("b", b_seeds))
        )
        (there,), (back,) = compare([*a, *b]).differences, compare([*b, *a]).differences
    assert there.bits == -back.bits
    found, mirrored = there.intervals, back.intervals
    assert (found.text_low_bits, found.mean_low_bits) == (-mirrored.text_high_bits, -mirrored.mean_high_bits)
    assert found.text_low_bits <= found.mean_low_bits <= there.bits <= found.mean_high_bits <= found.text_high_bits
    assert (there.running_bits == -back.running_bits).all()


def test_the_intervals_of_runs_are_those_of_their_cells_scaled_to_the_corpus(tmp_path: Path) -> None:
    a, b = drawn_units(201, 1), drawn_units(201, 2)
    ends = np.append(SEGMENT * np.arange(1, 201), 200 * SEGMENT + 5)  # a short last segment
    runs = [write_run(tmp_path / name, units, model=name, ends=ends) for name, units in (("a", a), ("b", b))]
    found = compare(runs, confidence=0.9).differences[0].intervals
    total, cells = int((b - a).sum()) * UNIT_BITS, (b - a)[:198].reshape(66, 3).sum(1) * UNIT_BITS
    variance = mean_variance(cells * int(ends[-1]) / (3 * SEGMENT))
    mean, text = (variance.half_width(0.9, n_texts=n) for n in (1, 2))
    bounds = found.mean_low_bits, found.mean_high_bits, found.text_low_bits, found.text_high_bits
    assert bounds == pytest.approx((total - mean, total + mean, total - text, total + text), rel=1e-9)
    assert (found.n_cells, found.cell_bytes, found.confidence) == (66, 3 * SEGMENT, 0.9)
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
    text = mean_variance((units["b"] - units["a"]) * UNIT_BITS * 80, (variance, 2))
    half = text.half_width(0.95, n_texts=2)
    assert varied.intervals.text_high_bits - varied.bits == pytest.approx(half, rel=1e-6)
    assert half > alone.intervals.text_high_bits - alone.bits
    assert "as many other seeds of A and B" in varied.intervals.text_of


def test_runs_with_different_segments_have_an_exact_total(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", drawn_units(96, 1))
    b = write_run(tmp_path / "b", drawn_units(64, 2), model="b", ends=96 * np.arange(1, 65))
    (difference,) = compare([a, b]).differences
    assert difference.bits == (drawn_units(64, 2).sum() - drawn_units(96, 1).sum()) * UNIT_BITS
    assert difference.intervals.cell_bytes == 96  # the longest segment


def test_the_crossing_is_that_of_the_running_difference(tmp_path: Path) -> None:
    unit = round(1 / UNIT_BITS)
    a = write_run(tmp_path / "a", [10 * unit] * 5)
    b = write_run(tmp_path / "b", [12 * unit, 13 * unit, 9 * unit, 4 * unit, 11 * unit], model="b")
    (difference,) = compare([a, b]).differences  # running: 2, 5, 4, -2, -1
    assert difference.crossing_byte == 3 * SEGMENT + np.ceil(SEGMENT * 4 / 6)
    assert (difference.bits, difference.percent) == (-1, -2)
    assert difference.intervals is None  # 5 cells


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
    assert "over all seeds of A" in difference.intervals.mean_of
    assert "under these seeds" in compare(written[1::2]).differences[0].intervals.mean_of


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


def test_what_cannot_be_compared_is_refused_with_the_reason(tmp_path: Path) -> None:
    a, again = (write_run(tmp_path / f"a{seed}", drawn_units(70, 0), seed=seed) for seed in range(2))
    corpus = {"n_bytes": 70 * SEGMENT, "blake2b": "00"}
    short = write_run(tmp_path / "short", drawn_units(69, 0), model="b", corpus=corpus)
    other = write_run(tmp_path / "other", drawn_units(70, 0), blake2b="11")
    for runs, error, part in (
        ([a, short], CorpusError, "up to byte 4480"),
        ([a, other], CorpusError, "they are of other bytes"),
        ([a, again], ConfigError, "one group"),
    ):
        with pytest.raises(error, match=part):
            compare(runs)
    with pytest.raises(ConfigError, match="outside"):
        compare([a, short], confidence=1.0)


def planted(bits: float, half: float, text: float, reference_bits: float = 10_000.0) -> Difference:
    """A difference of B from A with these half widths."""
    a, b = (
        RunGroup(label=label, runs=(label,), seeds=(0,), config={}, bits=(total,), curves=())
        for label, total in (("A", reference_bits), ("B", reference_bits + bits))
    )
    both = Intervals(
        mean_low_bits=bits - half, mean_high_bits=bits + half, text_low_bits=bits - text, text_high_bits=bits + text,
        mean_of="", text_of="", confidence=0.95, n_cells=64, cell_bytes=64,
    )  # fmt: skip
    none = np.zeros(2)
    return Difference(
        reference=a, other=b, bits=bits, intervals=both, crossing_byte=None, n_bytes=none, running_bits=none
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((-158, 30, 46), "B needs 1.6 ± 0.3 % fewer bits than A; expect 1.1 to 2.0 % on another such text."),
        ((158, 30, 46), "B needs 1.6 ± 0.3 % more bits than A; expect 1.1 to 2.0 % on another such text."),
        (
            (-160, 130, 200),
            "B needs 1.6 ± 1.3 % fewer bits than A; expect 0.4 % more to 3.6 % fewer on another such text.",
        ),
        (
            (-2.5, 2.6, 4.1),
            "B needs 0.03 ± 0.03 % fewer bits than A, so either may be the better; "
            "expect 0.02 % more to 0.07 % fewer on another such text.",
        ),
        ((0, 0, 0), "B and A are equal: they cost the same everywhere."),
    ],
)  # fmt: skip
def test_the_last_sentence_says_what_to_expect(values, expected) -> None:
    assert sentence(planted(*values)) == expected


def test_fewer_than_64_cells_have_no_interval_and_runs_of_equal_costs_are_equal(tmp_path: Path) -> None:
    for n in (63, 64):
        a, b = (write_run(tmp_path / f"{name}{n}", drawn_units(n, i), model=name) for i, name in enumerate("ab"))
        assert (compare([a, b]).differences[0].intervals is None) == (n == 63)
        same = write_run(tmp_path / f"same{n}", drawn_units(n, 0), model="same")
        assert str(compare([a, same])).splitlines()[-1] == "B and A are equal: they cost the same everywhere."
