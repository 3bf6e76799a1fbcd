"""Learners of one's own: figures from an independent computation, archives, and every cheat and every fault is refused."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import own_learners as models
import pytest
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import CausalityError, ConfigError, CorpusError, InvalidDistributionError
from prequential.evaluation.ledger import VOCABULARY
from prequential.evaluation.summary import format_report, format_total
from prequential.learners import distributions as tokens
from prequential.learners.adapted import MAX_MOVE
from prequential.learners.distributions import (
    TOTAL,
    checked_rows,
    id_pieces,
    integer_frequencies,
    probabilities,
    tokenise,
)
from prequential.learners.loading import load_spec, parse_arguments
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
    record = result.to_record()
    assert (record["coding"], record["verified"], record["decoder_bytes"]) == (CODED_HERE, True, 0)
    assert record["config"]["learner"]["name"] == "Counts"


def test_an_object_is_copied_so_that_it_can_be_measured_again():
    learner = models.Counts()
    first, second = (evaluate(TEXT, learner=learner).code_bits for _ in range(2))
    assert first == second and learner.counts.sum() == 256


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
    assert result.to_record()["coding"] == NOT_CODED
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
    assert 300 * 8 < entries[VOCABULARY] < 2000 * 8
    assert sum(entries.values()) == pytest.approx(result.total_bits)
    record = result.to_record()
    assert "the vocabulary of its tokenizer takes" in format_total(record) and "vocabulary" not in format_report(record)
    assert VOCABULARY not in [each.entry for each in evaluate(TEXT, learner=models.Counts).ledger]


@pytest.mark.parametrize("n_marks", [1, 49, 50, 51, 120])
@pytest.mark.parametrize("n_bytes", [49, 50, 100])
def test_ids_that_stand_for_no_byte_at_the_end_are_paid_by_the_last_byte(n_bytes, n_marks):
    text, tokenizer = TEXT[:n_bytes].replace(b"the", b"The"), models.MarksTheEnd(n_marks)
    result = evaluate(text, learner=partial(models.OfWords, tokenizer))
    ids = tokenizer.encode(text)
    assert result.code_bits == pytest.approx(ideal_bits(ids, 300), rel=1e-4)
    assert result.trace.bits("model").sum() == result.code_bits
    assert (np.diff(result.curve.n_bytes) > 0).all() and result.curve.n_bytes[-1] == n_bytes


def test_the_name_of_a_file_that_is_not_utf_8_can_be_recorded(tmp_path):
    path = tmp_path / os.fsdecode(b"m\xff.py")
    path.write_text("from own_learners import Counts")
    json.dumps(load_spec(f"{path}:Counts").description, ensure_ascii=False).encode()


def test_a_tokenizer_that_loses_bytes_is_refused_with_the_place():
    text = b"the Cat"
    with pytest.raises(CorpusError, match="at byte 4 comes back as"):
        tokenise(text, models.LosesBytes(), 300)
    with pytest.raises(ConfigError, match="gives id 256, but the learner predicts 256"):
        tokenise(text, models.Words(), 256)


def test_a_long_corpus_is_encoded_in_pieces_of_bounded_size_and_gives_the_same_ids(monkeypatch):
    text = np.frombuffer(sample_path("christmas_carol").read_bytes()[:60_000], np.uint8)
    (whole,) = id_pieces(text, models.SplitsWords(), 300)
    monkeypatch.setattr(tokens, "PIECE_BYTES", 10_000)
    tokenizer = models.SplitsWords()
    pieces = list(id_pieces(text, tokenizer, 300))
    assert len(pieces) >= 6 and max(tokenizer.sizes) <= 10_000
    for i in range(2):
        assert np.array_equal(np.concatenate([piece[i] for piece in pieces]), whole[i])
    assert len(list(id_pieces(text, models.Words(), 300))) == 1  # it does not say that it allows pieces


def test_a_tokenizer_that_encodes_the_end_of_a_text_otherwise_gets_no_pieces(monkeypatch):
    monkeypatch.setattr(tokens, "PIECE_BYTES", 10_000)
    tokenizer = models.MarksTheEnd(1)
    tokenizer.encodes_pieces = True
    text = np.frombuffer(sample_path("christmas_carol").read_bytes()[:30_000], np.uint8)
    assert len(list(id_pieces(text, tokenizer, 300))) == 1


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


def test_nll_is_not_used_for_bytes_that_are_written_into_an_archive():
    class Never(models.Counts):
        def nll(self, context, symbols):
            raise AssertionError("nll was called")

    assert evaluate(TEXT, learner=Never, verify=True).is_coded


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


# ---- distributions


def test_frequencies_sum_to_the_total_and_every_symbol_can_be_coded():
    random = np.random.default_rng(1)
    for n_symbols in (2, 256, 50_000):
        rows = random.normal(0, 20, (5, n_symbols))
        rows[0] = -np.inf
        rows[0, 1] = 0.0
        rows -= np.logaddexp.reduce(rows, axis=1, keepdims=True)
        found = np.empty(rows.shape, np.int64)
        integer_frequencies(np.exp(rows), TOTAL, found)
        assert (found.sum(1) == TOTAL).all() and found.min() >= 1
        assert np.abs(found - 1 - np.exp(rows) * (TOTAL - n_symbols)).max() < n_symbols + 1
        assert found[0].argmax() == 1 and found[0, 0] == 1


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (np.zeros((3, 5)), r"shape \(3, 5\) for 3 symbols; give \(3, 4\)"),
        (np.zeros(4), "shape"),
        (np.zeros((3, 4), np.int64), "returned int64"),
        ([[0.25] * 4] * 3, "returned list"),
        (np.full((3, 4), np.nan), "symbol 9 hold NaN"),
        (np.full((3, 4), np.log(0.2)), "symbol 9 sum to 0.8"),
        (np.full((3, 4), np.inf), "symbol 9"),
        (np.full((3, 4), -np.inf), "symbol 9 sum to 0,"),
        (np.array([[0.0, *[-np.inf] * 3], [0.1, *[-np.inf] * 3], [0.0, *[-np.inf] * 3]]), "symbol 10 sum to 1.1"),
    ],
)
def test_what_is_no_distribution_is_refused(rows, text):
    with pytest.raises(InvalidDistributionError, match=text):
        probabilities(checked_rows(rows, 3, 4), 9)


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
    with pytest.raises(ConfigError, match="not both"):
        evaluate(TEXT, learner=models.Counts, config=prequential.preset(1))
    starts = iter(range(1, 10))
    with pytest.raises(ConfigError, match="equal learners"):
        evaluate(TEXT, learner=lambda: models.Counts(next(starts)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.module:f", "'no.such.module' cannot be imported: ModuleNotFoundError"),
        ("own_learners:nothing", "has no 'nothing'"),
        ("own_learners", "names no learner"),
        ("own_learners:not_a_factory", "not a function or class"),
        ("missing.py:f", "file 'missing.py' does not exist"),
    ],
)
def test_a_name_that_names_no_learner_is_one_line(name, text):
    with pytest.raises(ConfigError, match=text):
        load_spec(name)


def test_arguments_are_json_or_text():
    assert parse_arguments(["lr=3e-4", "name=gpt", 'x={"a":1}', "b=true"]) == {
        "lr": 3e-4, "name": "gpt", "x": {"a": 1}, "b": True,
    }  # fmt: skip
    for wrong in (["lr"], ["=3"], ["a b=3"], ["a=1", "a=2"]):
        with pytest.raises(ConfigError):
            parse_arguments(wrong)
    with pytest.raises(ConfigError, match="cannot be made: TypeError"):
        load_spec("own_learners:Counts", {"no_such": 1})


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


def test_an_archive_of_another_learner_is_not_decoded_by_ours(tmp_path):
    draft = prequential.DraftFolder(path=tmp_path)
    evaluate(TEXT, learner=models.Counts, draft=draft)
    with pytest.raises(prequential.PrequentialError, match="learner of its own"):
        prequential.decompress((tmp_path / "archive.pq").read_bytes())


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
