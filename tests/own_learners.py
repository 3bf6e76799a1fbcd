"""Learners that keep the law, and learners that cheat."""

from typing import ClassVar

import numpy as np


class Counts:
    """The frequency of each byte so far."""

    n_symbols = 256
    deterministic = True
    run_symbols = 50

    def __init__(self, prior=1.0):
        self.counts = np.full(256, float(prior))

    def predict(self, context, symbols):
        return np.tile(np.log(self.counts / self.counts.sum()), (len(symbols), 1))

    def update(self, symbols):
        self.counts += np.bincount(symbols, minlength=256)

    def state_dict(self):
        return {"counts": self.counts}


class Pairs(Counts):
    """The byte before, also within the run: rows depend on the run's symbols, but on earlier ones only."""

    def __init__(self):
        self.counts = np.full((256, 256), 0.01)
        self.last = 0

    def predict(self, context, symbols):
        before = np.concatenate(([context[-1] if len(context) else 0], symbols[:-1]))
        rows = self.counts[before]
        return np.log(rows / rows.sum(1, keepdims=True))

    def update(self, symbols):
        np.add.at(self.counts, (np.concatenate(([self.last], symbols[:-1])), symbols), 1)
        self.last = int(symbols[-1])


class PeeksThroughAttention(Counts):
    """Each row is a mean over all places of the run, as of attention without a mask."""

    def predict(self, context, symbols):
        seen = np.bincount(symbols, minlength=256) / len(symbols)
        p = 0.9 * self.counts / self.counts.sum() + 0.1 * seen
        return np.tile(np.log(p), (len(symbols), 1))


class NormalisesOverTheRun(Pairs):
    """A constant of the whole run sharpens its rows: the sums are right, but the constant knows the future."""

    def predict(self, context, symbols):
        rows = super().predict(context, symbols)
        rows = rows * (1 + symbols.std() / 256)
        return rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)


class LearnsBeforeItIsScored(Counts):
    def predict(self, context, symbols):
        self.update(symbols)
        return super().predict(context, symbols)


class LearnsInSecret(LearnsBeforeItIsScored):
    """The same, but state_dict does not show it."""

    def state_dict(self):
        return {}


class SumsTo277(Counts):
    def predict(self, context, symbols):
        return super().predict(context, symbols) + np.log(277.0)


class Rare(PeeksThroughAttention):
    """Cheats in one run of three."""

    def predict(self, context, symbols):
        honest = len(context) // len(symbols) % 3
        return Counts.predict(self, context, symbols) if honest else super().predict(context, symbols)


class Words:
    """A tokenizer of three-letter ids: 'the' is one id, every byte another."""

    def encode(self, data):
        parts = [list(part) for part in data.split(b"the")]
        return parts[0] + [i for part in parts[1:] for i in (256, *part)]

    def decode(self, ids):
        return b"".join(b"the" if i == 256 else bytes([i]) for i in ids)


class MarksTheEnd(Words):
    """Ids that stand for no byte follow the text, as the end of a sequence of other tokenizers."""

    def __init__(self, n):
        self.n = n

    def encode(self, data):
        return super().encode(data) + [299] * self.n

    def decode(self, ids):
        return super().decode([i for i in ids if i != 299])


class LosesBytes(Words):
    def decode(self, ids):
        return super().decode(ids).lower()


class SplitsWords(Words):
    """It allows pieces, and counts how long the texts are that it gets."""

    encodes_pieces = True

    def __init__(self):
        self.sizes = []

    def encode(self, data):
        self.sizes.append(len(data))
        return np.array(super().encode(data))


class OfWords(Counts):
    n_symbols = 300

    def __init__(self, tokenizer=None):
        self.counts = np.ones(300)
        self.tokenizer = tokenizer or Words()

    def update(self, symbols):
        self.counts += np.bincount(symbols, minlength=300)


class OfWordsByNll(OfWords):
    """It also gives the nats of the true symbols, and counts the calls of both."""

    calls: ClassVar = {"predict": 0, "nll": 0}

    def predict(self, context, symbols):
        self.calls["predict"] += 1
        return super().predict(context, symbols)

    def nll(self, context, symbols):
        self.calls["nll"] += 1
        return -np.log(self.counts / self.counts.sum())[symbols]

    def load_state_dict(self, state):
        self.counts = state["counts"]


class NllIsCheaper(OfWordsByNll):
    def nll(self, context, symbols):
        return super().nll(context, symbols) * 0.99


class NllPeeks(OfWordsByNll):
    """Its distributions keep the law, but nll sees the run's frequencies."""

    def nll(self, context, symbols):
        counts = self.counts + np.bincount(symbols, minlength=300)
        return -np.log(counts / counts.sum())[symbols]


class NllLearns(OfWordsByNll):
    def nll(self, context, symbols):
        self.update(symbols)
        return super().nll(context, symbols)


class NllLearnsInSecret(NllLearns):
    def state_dict(self):
        return {}


class NllIsNegative(OfWordsByNll):
    def nll(self, context, symbols):
        return -super().nll(context, symbols)


class NllIsRows(OfWordsByNll):
    def nll(self, context, symbols):
        return self.predict(context, symbols)


class UsesItsMemoryAgain(PeeksThroughAttention):
    """The array that it returns is the same one in each call."""

    rows = np.zeros((50, 256))

    def predict(self, context, symbols):
        found = self.rows[: len(symbols)]
        found[:] = super().predict(context, symbols)
        return found


class ResumesCounts(Counts):
    """Its state holds values of every kind that a state may have."""

    def __init__(self):
        super().__init__()
        self.updates, self.by_byte = 0, {}

    def update(self, symbols):
        super().update(symbols)
        self.updates += 1
        self.by_byte[(int(symbols[0]), "first")] = np.float32(self.updates)

    def predict(self, context, symbols):
        return super().predict(context, symbols) if self.updates == -(-len(context) // 50) else 1 / 0

    def state_dict(self):
        rest = [True, None, b"x", 2**80, np.array(3.5), np.zeros((2, 0)), np.ones(2, bool)]
        return {"counts": self.counts, "updates": self.updates, "by_byte": self.by_byte, "rest": rest}

    def load_state_dict(self, state):
        self.counts, self.updates, self.by_byte = state["counts"], state["updates"], state["by_byte"]
        assert state["rest"][:4] == [True, None, b"x", 2**80] and state["rest"][4].shape == ()
        assert state["rest"][5].shape == (2, 0) and state["rest"][6].dtype == bool


def failing():
    raise RuntimeError("no weights\nhere")


def a_number():
    return 3


not_a_factory = 3
