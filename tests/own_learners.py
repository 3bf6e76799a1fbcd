"""Learners that keep the law, and learners that cheat."""

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


class OfWords(Counts):
    n_symbols = 300

    def __init__(self, tokenizer=None):
        self.counts = np.ones(300)
        self.tokenizer = tokenizer or Words()

    def update(self, symbols):
        self.counts += np.bincount(symbols, minlength=300)


def failing():
    raise RuntimeError("no weights\nhere")


def a_number():
    return 3


not_a_factory = 3
