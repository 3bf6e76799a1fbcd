"""Learners of one's own: figures from an independent computation, archives, and every cheat and every fault is refused."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import own_learners as models
import pytest
import torch
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import CausalityError, ConfigError, InvalidDistributionError
from prequential.evaluation.ledger import VOCABULARY
from prequential.evaluation.summary import format_report, format_total
from prequential.learners.adapted import MAX_MOVE, SMALL, STRUCTURE, flattened, restored
from prequential.records import CODED_HERE, NOT_CODED

TEXT = sample_path("christmas_carol").read_bytes()[:4000]
evaluate = partial(prequential.evaluate, baselines=())


def ideal_bits(text, n_symbols=256, run=50):
    """Frequencies of the symbols before each run, as Counts has them."""
    counts, bits = np.ones(n_symbols), 0.0
    for start in range(0, len(text), run):
        part = np.asarray(text[start : start + run])
        bits -= np.log2(counts[part] / counts.sum()).sum()
        counts += np.bincount(part, minlength=n_symbols)
    return bits


@pytest.mark.parametrize("learner", [models.Counts, models.Counts()], ids=["factory", "object"])
def test_the_code_length_is_that_of_an_independent_computation_and_the_archive_decodes(learner):
    result = evaluate(TEXT, learner=learner, verify=True)
    assert result.code_bits == pytest.approx(ideal_bits(list(TEXT)), rel=1e-4)
    assert 0 < 8 * result.payload_bytes - result.code_bits < 100
    assert result.is_coded and result.verify_wall_s > 0
    assert result.curve.n_bytes.tolist() == list(range(50, 4001, 50))
    record = result.record
    assert (record["coding"], record["verified"], record["decoder_bytes"]) == (CODED_HERE, True, 0)
    assert record["config"]["learner"]["name"] == "Counts"


@pytest.mark.parametrize(
    ("cheat", "error", "text"),
    [
        (models.PeeksThroughAttention, CausalityError, "prediction of symbol 0 moves"),
        (models.NormalisesOverTheRun, CausalityError, "moves when symbols from"),
        (models.LearnsBeforeItIsScored, CausalityError, "symbols 0-50: predict changed the learner's state"),
        (models.LearnsInSecret, CausalityError, "prediction of symbol 0 moves"),
        (models.SumsTo277, InvalidDistributionError, "symbol 0 sum to 277"),
        (models.Rare, CausalityError, "moves when"),
        (models.UsesItsMemoryAgain, CausalityError, "prediction of symbol 0 moves"),
        (type("Sly", (models.PeeksThroughAttention,), {"deterministic": False}), CausalityError, "moves when"),
        (type("Sly", (models.LearnsInSecret,), {"deterministic": False}), CausalityError, "moves when"),
    ],
)
def test_a_learner_that_cheats_is_refused_with_the_place(cheat, error, text):
    with pytest.raises(error, match=text):
        evaluate(TEXT, learner=cheat)


def test_the_draw_of_checks_differs_between_runs():
    """So a learner cannot know which runs are checked."""
    calls = []

    class Counted(models.Counts):
        def predict(self, context, symbols):
            calls[-1].append(len(context))
            return super().predict(context, symbols)

    for _ in range(2):
        calls.append([])
        evaluate(TEXT * 5, learner=Counted)
    checked = [{n for n in each if each.count(n) > 1} for each in calls]
    assert checked[0] != checked[1]


def test_small_moves_of_a_learner_that_is_not_deterministic_are_noise():
    class Noisy(models.Counts):
        deterministic = False
        random = np.random.default_rng(0)

        def predict(self, context, symbols):
            rows = super().predict(context, symbols)
            return rows + self.random.uniform(-1, 1, rows.shape) * MAX_MOVE / 10

    assert not evaluate(TEXT, learner=Noisy).is_coded
    Noisy.deterministic = True
    with pytest.raises(CausalityError):
        evaluate(TEXT, learner=Noisy)


# ---- without an archive


def test_a_learner_that_is_not_deterministic_has_a_code_length_and_no_archive(monkeypatch):
    coded = evaluate(TEXT, learner=models.Counts)
    monkeypatch.setattr(models.Counts, "deterministic", False)
    result = evaluate(TEXT, learner=models.Counts)
    assert result.code_bits == pytest.approx(coded.code_bits, rel=1e-4)
    assert result.archive_bytes == int(np.ceil(result.code_bits / 8))
    assert result.record["coding"] == NOT_CODED
    with pytest.raises(ConfigError, match="no archive to verify"):
        evaluate(TEXT, learner=models.Counts, verify=True)


def test_ids_of_a_tokenizer_cost_what_they_cost_and_their_bytes_share_it():
    result = evaluate(TEXT, learner=models.OfWords)
    ids = models.Words().encode(TEXT)
    assert result.code_bits == pytest.approx(ideal_bits(ids, 300), rel=1e-4)
    assert not result.is_coded
    bits, place = result.trace.bits("model"), TEXT.index(b"the")
    assert bits[place] == pytest.approx(bits[place + 1], abs=1e-6) and bits[place + 1] == bits[place + 2]
    assert bits.sum() == result.code_bits == result.curve.bits[-1]
    assert result.curve.n_bytes[-1] == len(TEXT)


def test_the_vocabulary_of_a_learner_is_an_entry_of_its_ledger():
    result = evaluate(TEXT, learner=models.OfWords)
    entries = {each.entry: each.bits for each in result.ledger}
    assert 8 * 300 < entries[VOCABULARY] < 8 * 2000
    assert sum(entries.values()) == pytest.approx(result.total_bits)
    record = result.record
    assert VOCABULARY in format_total(record) and "vocabulary" not in format_report(record)
    assert VOCABULARY not in {each.entry for each in evaluate(TEXT, learner=models.Counts).ledger}


@pytest.mark.parametrize("n_marks", [1, 49, 50, 51, 120])
@pytest.mark.parametrize("n_bytes", [49, 50, 100])
def test_ids_that_stand_for_no_byte_at_the_end_are_paid_by_the_last_byte(n_bytes, n_marks):
    text, tokenizer = TEXT[:n_bytes].replace(b"the", b"The"), models.MarksTheEnd(n_marks)
    result = evaluate(text, learner=partial(models.OfWords, tokenizer))
    ids = tokenizer.encode(text)
    assert result.code_bits == pytest.approx(ideal_bits(ids, 300), rel=1e-4)
    assert result.trace.bits("model").sum() == result.code_bits
    assert (np.diff(result.curve.n_bytes) > 0).all() and result.curve.n_bytes[-1] == n_bytes


# ---- learners that give the nats of the true symbols


def test_nll_gives_the_code_length_and_rows_are_asked_in_checked_runs_only():
    models.OfWordsByNll.calls.update(predict=0, nll=0)
    text = sample_path("christmas_carol").read_bytes()[:60_000]
    result = evaluate(text, learner=models.OfWordsByNll)
    by_rows = evaluate(text, learner=models.OfWords)
    assert result.code_bits == pytest.approx(by_rows.code_bits, rel=1e-6)
    n_runs = -(-len(models.Words().encode(text)) // 50)
    calls = models.OfWordsByNll.calls
    n_checked = calls["predict"] // 2
    assert calls["nll"] == n_runs + n_checked and 4 <= n_checked < n_runs / 6


@pytest.mark.parametrize(
    ("cheat", "error", "text"),
    [
        (models.NllIsCheaper, CausalityError, "nll of symbol 0 is .*, but predict gives"),
        (models.NllPeeks, CausalityError, "nll of symbol 0 is .*, but predict gives"),
        (models.NllLearns, CausalityError, "symbols 0-50: predict changed the learner's state"),
        (models.NllLearnsInSecret, CausalityError, "its second call gives"),
        (models.NllIsNegative, InvalidDistributionError, "nll of symbol 0 is -5.7.*cannot be negative"),
        (models.NllIsRows, InvalidDistributionError, r"nll returned float64 of shape \(50, 300\)"),
    ],
)
def test_a_learner_whose_nll_is_wrong_is_refused(cheat, error, text):
    with pytest.raises(error, match=text):
        evaluate(TEXT, learner=cheat)


# ---- faults of somebody else's code are one line


class Broken(models.Counts):
    def update(self, symbols):
        raise ValueError("out of\nmemory")


class StateOfObjects(models.Counts):
    def state_dict(self):
        return {"a": object()}


@pytest.mark.parametrize(
    ("learner", "text"),
    [
        (Broken, "update failed at symbol 0: ValueError: out of memory"),
        (StateOfObjects, "state_dict of the learner: .a is a object"),
        (models.failing, "cannot be made: RuntimeError: no weights here"),
        (models.a_number, "int has no method 'predict'"),
        (models.not_a_factory, "int is not a learner"),
        (type("A", (models.Counts,), {"n_symbols": 4}), "predicts 256 symbols \\(bytes\\), not 4"),
        (type("A", (models.Counts,), {"n_symbols": "many"}), "n_symbols of A is 'many'"),
        (type("A", (models.Counts,), {"run_symbols": 0}), "run_symbols of the learner is 0"),
        (type("A", (models.Counts,), {"tokenizer": 3}), "needs the methods encode and decode"),
        (type("A", (models.Counts,), {"predict": None}), "no method 'predict'"),
    ],
)
def test_a_learner_that_cannot_be_used_is_one_line(learner, text):
    with pytest.raises(ConfigError, match=text) as raised:
        evaluate(TEXT, learner=learner)
    assert "\n" not in str(raised.value)


def test_a_factory_that_makes_different_learners_or_stands_beside_a_config_is_refused():
    with pytest.raises(ConfigError, match="leave out all but one"):
        evaluate(TEXT, learner=models.Counts, config=prequential.preset(1))
    starts = iter(range(1, 10))
    with pytest.raises(ConfigError, match="equal learners"):
        evaluate(TEXT, learner=lambda: models.Counts(next(starts)))


def test_what_the_learner_gets_is_its_own():
    """It cannot reach the corpus through the arrays, or change it."""

    class Writes(models.Counts):
        def predict(self, context, symbols):
            assert not context.flags.writeable and symbols.base is None
            assert not context.base[len(context) :].any()  # not the future
            rows = super().predict(context, symbols)
            symbols[:] = 0
            return rows

    assert evaluate(TEXT, learner=Writes).code_bits == evaluate(TEXT, learner=models.Counts).code_bits


# ---- states: every value comes back, and a crafted text runs nothing


def same(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.cpu(), b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def test_every_value_comes_back_equal():
    state = {
        "a": {3: [1, (2.5, "x"), None, True], ("k", 1): b"\x00\xff", "big": 2**100, "inf": float("inf")},
        "arrays": [np.arange(5000.0), np.arange(6).reshape(2, 3)[:, ::2], np.zeros((0, 4), np.int8), np.array(1 + 2j)],
        "numbers": [np.float32(1.5), np.int64(7), np.bool_(True)],
        "tensors": [torch.arange(9000).reshape(3, -1).t(), torch.tensor(2.0), torch.ones(3, dtype=torch.bfloat16),
                    torch.tensor([True]), torch.zeros(0, 2), torch.nn.Parameter(torch.ones(2))],
    }  # fmt: skip
    assert same(state, restored(flattened(state)))


@pytest.mark.parametrize("value", [object(), {"a": np.array(["x"])}, [len], {"a": np.array([None])}])
def test_a_value_of_another_type_is_refused(value):
    with pytest.raises(ConfigError, match="state_dict of the learner"):
        flattened(value)


@pytest.mark.parametrize(
    "structure",
    [
        b"", b"[", b'{"array": [0, 8], "dtype": "O", "shape": [1]}', b'{"tensor": [0, 4], "dtype": "load", "shape": [1]}',
        b'{"array": [7], "dtype": "<f8", "shape": [1]}', b'{"array": [0, 8], "dtype": "<f8", "shape": [9]}', b"{}",
        b'{"tensor": [0, 4], "dtype": "torch.float32", "shape": [1099511627776]}', b'{"array": "x"}',
        b'{"dict": [[{"list": []}, 1]]}', b'{"eval": [0, 8]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_state_that_was_crafted_is_refused(structure):
    with pytest.raises(ValueError, match="damaged"):
        restored({STRUCTURE: np.frombuffer(structure, np.uint8), SMALL: np.zeros(8, np.uint8)})


# ---- the example of the documents


DOCUMENT = Path(__file__).parents[2] / "docs" / "LEARNERS.md"


def test_the_example_is_measured_and_verified_in_an_empty_folder(tmp_path):
    text = DOCUMENT.read_text(encoding="utf-8")
    code = re.search(r"<!-- example: mine.py -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    command = re.search(r"^    prequential (evaluate .*mine\.py.*)$", text, re.MULTILINE)[1]
    (tmp_path / "mine.py").write_text(code)
    arguments = command.replace("20K", "1500").split()
    done = subprocess.run(
        [sys.executable, "-m", "prequential", *arguments, "--baselines", "none"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "every byte decoded and compared on this machine and these versions" in done.stdout
    assert "mine.py:Markov, order=3" in done.stdout
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
