"""Causality: our learner passes every check on a running learner, and each way to break it fails the check for it."""

from dataclasses import dataclass, field, replace

import numpy as np
import observed_run
import pytest
import small
from observed_run import CODE, DISTRIBUTION, FUTURE, ONCE, ROUND_TRIP, STEP, WEIGHTS
from prequential_codecs.bit_coder import SCORE, BitCoder

from prequential.exact import fused, matmul, plain
from prequential.exact.arrays import to_tensor
from prequential.exact.backend import Arithmetic
from prequential.exact.pool import Pool
from prequential.model.gpt.gpt import GPT
from prequential.model.learner import OnlineLearner, training_rows
from prequential.online.runtime import Runtime

BOTH = replace(small.BOTH, gpt=replace(small.GPT, width=32, contexts=("3", "after2"), warmup_updates=1))
PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
SENTENCE = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
)
TEXT = 6 * SENTENCE
SOURCE = np.frombuffer(TEXT, np.uint8)
ALL = {DISTRIBUTION, CODE, FUTURE, WEIGHTS, STEP, ONCE, ROUND_TRIP}
OF_GPT = {DISTRIBUTION, WEIGHTS, STEP}


def check(config=BOTH, runtime=None, source=SOURCE, samples=6):
    """The verdicts by check."""
    found = observed_run.check_corpus(source, config, runtime or Runtime(threads=1), samples)
    return {verdict.check: verdict for verdict in found}


def failures(found):
    return {check: verdict.failure for check, verdict in found.items() if verdict.failure}


# ---- learners that are causal


RUNTIMES = [Runtime(threads=1), Runtime(threads=2), Runtime(threads=1, audit_every=2)]


@CONFIGS
@pytest.mark.parametrize("runtime", RUNTIMES, ids="12a")
@pytest.mark.first_quick
def test_a_causal_learner_passes_every_check(config, runtime):
    found = check(config, runtime)
    assert found.keys() == (ALL if config.gpt else ALL - OF_GPT)
    assert failures(found) == {}
    assert found[CODE].times == found[FUTURE].times == 6
    assert found[ONCE].times == found[ROUND_TRIP].times == len(TEXT)


def test_plain_kernels_and_noise_pass():
    noise = np.random.default_rng(2).integers(0, 256, 330, dtype=np.uint8)  # raw blocks
    assert failures(check(BOTH, Runtime(threads=1, kernels="plain"), noise)) == {}


# ---- learners that are not


def favoured(rows, symbols):
    """Frequencies that make these symbols nearly certain."""
    rows = np.ones_like(rows)
    rows[np.arange(len(rows)), symbols[: len(rows)]] = (1 << 24) - 255
    return rows


class Peeks(OnlineLearner):
    """Knows the symbol that it predicts."""

    ahead = 0
    known = None

    def code(self, symbols, coder):
        self.known = np.roll(symbols, -self.ahead)
        try:
            return super().code(symbols, coder)
        finally:
            self.known = None

    def gpt_frequencies(self, inputs, first):
        rows = super().gpt_frequencies(inputs, first)
        return rows if self.known is None else favoured(rows, self.known[first:])


class PeeksAhead(Peeks):
    """Knows the symbol after the one that it predicts."""

    ahead = 1


class LearnsEarly(OnlineLearner):
    """The mixer has learned the segment before it is coded."""

    def code(self, symbols, coder):
        self.mixer.code(symbols.copy(), None, BitCoder(SCORE))
        return super().code(symbols, coder)


class MovesWeights(OnlineLearner):
    """The weights that predict a segment change within it."""

    def code(self, symbols, coder):
        bits = super().code(symbols, coder)
        self.gpt._reader.weights.embedding[0, 5] += 1
        return bits


class LearnsFromTheOpenSegment(OnlineLearner):
    """The GPT takes another step, on the segment that was just coded, before that segment's own step has its result."""

    def end(self, n_symbols):
        super().end(n_symbols)
        self.gpt.update(*map(to_tensor, training_rows(self.config, self.history, self._last_segment_size)))


class RecallsTheNext(OnlineLearner):
    """What it recalls for a symbol is what it should recall for the next one."""

    def inputs(self, symbols):
        inputs, start = super().inputs(symbols), self.history.n_symbols
        ahead = self.history.recall.frozen()
        ahead.read(symbols[ahead.n_read - start :])
        values = ahead.at(start + 1 + np.arange(len(symbols)))
        return np.concatenate((inputs[:, : -values.shape[1]], values), 1)


class CodesTwice(OnlineLearner):
    def code(self, symbols, coder):
        super().code(symbols.copy(), coder)
        return super().code(symbols, coder)


class Hides(OnlineLearner):
    """Reports less than it codes."""

    def code(self, symbols, coder):
        return 0.5 * super().code(symbols, coder)


class Overlarge(OnlineLearner):
    def gpt_frequencies(self, inputs, first):
        return super().gpt_frequencies(inputs, first) + 1


@dataclass(frozen=True, kw_only=True)
class Breaking(Runtime):
    threads: int | None = 1
    kind: type = field(default=OnlineLearner)

    def learner(self, config):
        primitives = plain if self.kernels == "plain" else fused
        backend = Arithmetic(primitives, matmul.choose("cpu", "float32"), Pool(1))
        return self.kind(config, GPT(config.gpt, config.seed, backend))


@pytest.mark.parametrize(
    ("kind", "failing"),
    [
        (Peeks, {CODE, ROUND_TRIP}),
        (PeeksAhead, {CODE, FUTURE, ROUND_TRIP}),
        (RecallsTheNext, {FUTURE, ROUND_TRIP}),
        (LearnsEarly, {CODE, FUTURE, ONCE, ROUND_TRIP}),
        (MovesWeights, {WEIGHTS}),
        (LearnsFromTheOpenSegment, {STEP}),
        (CodesTwice, {ONCE}),
        (Hides, {CODE, ONCE}),
        (Overlarge, {DISTRIBUTION}),
    ],
)
@pytest.mark.parametrize("kernels", ["fused", pytest.param("plain", marks=pytest.mark.thorough)])
@pytest.mark.first_quick
def test_a_learner_that_looks_ahead_or_lies_fails(kind, failing, kernels):
    found = failures(check(runtime=Breaking(kind=kind, kernels=kernels)))
    assert failing <= found.keys()
    assert len(set(found.values())) == len(found)
