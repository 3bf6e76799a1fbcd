"""Comparison: differences are exact, each question has its own answer, and runs that are not comparable are refused."""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prequential_codecs.bit_coder import UNIT_BITS
from scipy.stats import t
from series import SEGMENT, write_run

from prequential.comparison.clusters import holm
from prequential.comparison.compare import Difference, RunGroup, compare
from prequential.comparison.differences import sentence
from prequential.comparison.evidence import Interval
from prequential.comparison.prediction import mean_variance
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.runs import Run

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
    assert there.bits == -back.bits and (there.running_bits == -back.running_bits).all()
    assert there.n_same_sign == back.n_same_sign
    assert there.texts.p_value == back.texts.p_value and (there.seeds is None) == (len(a_seeds) == len(b_seeds) == 1)


def test_other_texts_are_judged_by_the_cells_of_this_one(tmp_path: Path) -> None:
    a, b = drawn_units(201, 1), drawn_units(201, 2)
    ends = np.append(SEGMENT * np.arange(1, 201), 200 * SEGMENT + 5)  # a short last segment
    runs = [write_run(tmp_path / name, units, model=name, ends=ends) for name, units in (("a", a), ("b", b))]
    (difference,) = compare(runs).differences
    total, cells = int((b - a).sum()) * UNIT_BITS, (b - a)[:198].reshape(66, 3).sum(1) * UNIT_BITS
    half = mean_variance(cells * int(ends[-1]) / (3 * SEGMENT)).half_width(0.95)
    base = int(a.sum()) * UNIT_BITS / 100
    ends_percent = difference.texts.low_percent, difference.texts.high_percent
    assert ends_percent == pytest.approx(((total - half) / base, (total + half) / base), rel=1e-9)
    assert difference.texts.over == "this text alone"


def test_the_deviation_of_seeds_is_pooled_over_all_groups(tmp_path: Path) -> None:
    """Three groups of two seeds: six runs less three means are three degrees of freedom."""
    totals = {"a": (100, 102), "b": (110, 112), "c": (90, 91)}
    runs = [
        write_run(tmp_path / f"{name}{seed}", [total * 1000] * 70, model=name, seed=seed)
        for name, pair in totals.items()
        for seed, total in enumerate(pair)
    ]
    first = compare(runs).differences[0].seeds
    logs = [100 * np.log(pair) for pair in totals.values()]
    deviation = np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in logs) / 3)
    assert 50 * np.log1p(first.high_percent / 100) - 50 * np.log1p(first.low_percent / 100) == pytest.approx(
        t.ppf(0.975, 3) * deviation
    )
    assert first.decides and first.p_value == pytest.approx(2 * t.sf((logs[1].mean() - logs[0].mean()) / deviation, 3))


def with_documents(run: Run, rates: list[float], sizes: list[int]) -> Run:
    rows = [
        {"name": str(i), "n_bytes": n, "n_documents": 1, "bits": {"model": n * rate}}
        for i, (n, rate) in enumerate(zip(sizes, rates, strict=True))
    ]
    table = {"rows": rows, "each": {"n_bytes": sizes, "bits": [row["bits"]["model"] for row in rows]}}
    return Run(run.path, {**run.record, "tables": {"documents": table}}, run.curve_table())


def test_documents_of_equal_weight_judge_other_texts_and_too_few_or_uneven_ones_do_not(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, drawn_units(70, i), model=name) for i, name in enumerate("ab")]

    def compared(sizes: list[int]) -> Difference:
        rates = [[2.0] * len(sizes), [1.9 - 0.01 * (i % 3) for i in range(len(sizes))]]
        a, b = (with_documents(run, each, sizes) for run, each in zip(runs, rates, strict=True))
        return compare([a, b]).differences[0]

    many = compared([100, 5000, 300, 200])
    assert many.texts.over == "4 documents of equal weight" and many.texts.decides
    assert many.texts.low_percent < -100 * 0.1075 / 2 < many.texts.high_percent < 0
    assert "2 documents are too few to speak of other texts" in sentence(compared([100, 5000]))
    rows = [{"name": "long", "n_bytes": 900, "n_documents": 1, "bits": {"model": 1.0}}]
    rows += [{"name": "all others", "n_bytes": 100, "n_documents": 50, "bits": {"model": 1.0}}]
    uneven = [Run(r.path, {**r.record, "tables": {"documents": {"rows": rows}}}, r.curve_table()) for r in runs]
    (difference,) = compare(uneven).differences
    assert difference.texts is None and "worth 1.2 equal documents: too few" in sentence(difference)


def test_words_follow_holm_over_all_runs_and_a_mixer_alone_has_no_seeds(tmp_path: Path) -> None:
    base = drawn_units(70, 0)
    shifts = [0, *(round(base.mean() * (0.002 + 0.0001 * i)) for i in range(4))]
    runs = [
        write_run(tmp_path / f"{i}{seed}", base + shift + seed * round(base.mean() * 0.001), model=str(i), seed=seed)
        for i, shift in enumerate(shifts)
        for seed in range(2)
    ]
    differences = compare(runs).differences
    p_values = [each.seeds.p_value for each in differences]
    assert [each.seeds.decides for each in differences] == holm(p_values, 0.05)
    mixers = [write_run(tmp_path / f"m{i}", base + i, config={"gpt": None, "seed": 0, "i": i}) for i in range(2)]
    mixers += [write_run(tmp_path / "again", base, config={"gpt": None, "seed": 1, "i": 0})]  # tells of no deviation
    assert compare([runs[0], *mixers]).differences[0].seeds is None
    assert "second seed" not in sentence(compare(mixers).differences[0])
    assert "run a second seed" in sentence(compare(runs[::2]).differences[0])


def test_runs_with_different_segments_have_an_exact_total(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", drawn_units(96, 1))
    b = write_run(tmp_path / "b", drawn_units(64, 2), model="b", ends=96 * np.arange(1, 65))
    (difference,) = compare([a, b]).differences
    assert difference.bits == (drawn_units(64, 2).sum() - drawn_units(96, 1).sum()) * UNIT_BITS


def test_the_crossing_is_that_of_the_running_difference(tmp_path: Path) -> None:
    unit = round(1 / UNIT_BITS)
    a = write_run(tmp_path / "a", [10 * unit] * 5)
    b = write_run(tmp_path / "b", [12 * unit, 13 * unit, 9 * unit, 4 * unit, 11 * unit], model="b")
    (difference,) = compare([a, b]).differences  # running: 2, 5, 4, -2, -1
    assert difference.crossing_byte == 3 * SEGMENT + np.ceil(SEGMENT * 4 / 6)
    assert (difference.bits, difference.percent) == (-1, -2)
    assert difference.texts is None  # 5 cells


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
    assert "(means over seeds)" in sentence(difference) and "(exact)" in sentence(comparison.differences[1]) + "(exact)"


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


def planted(bits: float, **changes) -> Difference:
    """A difference of B from A."""
    a, b = (
        RunGroup(label=label, runs=(label,), seeds=(0,), config={"gpt": {}}, bits=(total,), curves=())
        for label, total in (("A", 10_000.0), ("B", 10_000.0 + bits))
    )
    values = {
        "parts_percent": (bits / 100,) * 8,
        "seeds": None,
        "texts": None,
        "n_documents": 0,
        "n_effective": math.inf,
    }
    arrays = {"n_bytes": np.zeros(2), "running_bits": np.zeros(2)}
    values |= {"reference": a, "other": b, "bits": bits, "crossing_byte": None, **arrays, **changes}
    return Difference(**values)


def of_percent(low: float, high: float, **values) -> Interval:
    return Interval(low_percent=low, high_percent=high, p_value=0.5, over="this text alone", **values)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (
            planted(-1177, texts=of_percent(-29.1, 5.5)),
            "On this text B needs 11.77 % fewer bits than A (exact), in 8 of 8 eighths of it (-11.8 to -11.8 %). For other texts "
            "of this kind: -29.1 to +5.5 % (95 %, by this text alone): measure a second text.",
        ),
        (
            planted(20, parts_percent=(1, 1, 1, 1, 1, -1, -1, -1), seeds=of_percent(-0.27, 0.67)),
            "On this text B needs 0.20 % more bits than A (exact), in 5 of 8 eighths of it (-1.0 to +1.0 %): the text is "
            "divided. Over other seeds: -0.27 to +0.67 % (95 %): seeds could make this difference.",
        ),
        (
            planted(-64, seeds=of_percent(-1.1, -0.2, decides=True), texts=of_percent(-1.3, -0.1, decides=True)),
            "On this text B needs 0.64 % fewer bits than A (exact), in 8 of 8 eighths of it (-0.6 to -0.6 %). Over other seeds: "
            "-1.10 to -0.20 % (95 %). For other texts of this kind: -1.3 to -0.1 % (95 %, by this text alone).",
        ),
        (
            planted(-64, seeds=of_percent(-1.1, -0.2)),  # excludes 0, but not by Holm's method
            "On this text B needs 0.64 % fewer bits than A (exact), in 8 of 8 eighths of it (-0.6 to -0.6 %). Over other seeds: "
            "-1.10 to -0.20 % (95 %): not enough for all comparisons together (Holm's method), seeds could make this difference.",
        ),
        (planted(0.0), "B and A are equal: they cost the same everywhere."),
    ],
)
def test_the_sentence_answers_three_questions(difference: Difference, expected: str) -> None:
    assert sentence(difference) == expected
