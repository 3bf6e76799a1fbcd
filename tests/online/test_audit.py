"""An audited run gives the same bytes and no false alarm. It finds planted faults in time and names tensor, block and bytes."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder
from small import DEEPER as BOTH

from prequential.errors import FaultError
from prequential.exact import fused, plain
from prequential.model.gpt.reader import Reader
from prequential.model.learner import OnlineLearner
from prequential.online.coding import compress, decompress
from prequential.online.runtime import Runtime

PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
SENTENCE = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
)
TEXT = SENTENCE * 9
SYMBOLS = np.frombuffer(TEXT, np.uint8).astype(np.int64)
SIZE = 48  # of a segment


def make(config=BOTH, every=3, threads=1):
    return Runtime(threads=threads, kernels="fused", audit_every=every).learner(config)


def learn(learner, n_segments, first=0, coder=None):
    """Reads segments first .. first + n_segments - 1."""
    coder = coder or BitCoder(SCORE)
    for i in range(first, first + n_segments):
        symbols = SYMBOLS[i * SIZE : (i + 1) * SIZE].copy()
        learner.begin(SIZE)
        learner.code(symbols, coder)
        learner.end(SIZE)
        assert np.array_equal(symbols, SYMBOLS[i * SIZE : (i + 1) * SIZE])


def flip(array, seed=0):
    """Flips one bit of an array, in place."""
    random, words = np.random.default_rng(seed), array.view(f"u{array.itemsize}")
    place = tuple(int(random.integers(n)) for n in words.shape)
    words[place] ^= words.dtype.type(1 << int(random.integers(8 * array.itemsize)))


def archive_of(config, runtime):
    header = Header(n_bytes=len(TEXT), blake2b=bytes(32), config=config.to_dict())
    sink = io.BytesIO()
    for _ in compress(np.frombuffer(TEXT, np.uint8), header, sink, runtime.learner(config)):
        pass
    return sink.getvalue()


@pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
@pytest.mark.parametrize(("every", "threads", "kernels"), [(1, 2, "fused"), (3, 1, "plain")])
@pytest.mark.first_quick
def test_an_audited_run_writes_the_same_archive_and_decodes_it(config, every, threads, kernels):
    archive = archive_of(config, Runtime(threads=1))
    audited = Runtime(threads=threads, kernels=kernels, audit_every=every)
    assert archive_of(config, audited) == archive
    sink = io.BytesIO()
    for _ in decompress(ArchiveReader(io.BytesIO(archive)), sink, audited.learner(config)):
        pass
    assert sink.getvalue() == TEXT


def test_the_replica_has_the_other_kernels_and_without_an_audit_there_is_none():
    for kernels, own, other in (("fused", fused, plain), ("plain", plain, fused), (None, fused, plain)):
        learner = Runtime(threads=1, kernels=kernels, audit_every=1).learner(BOTH)
        assert (learner.gpt.backend.primitives, learner._replica.gpt.backend.primitives) == (own, other)
    assert type(make(every=0)) is OnlineLearner


def test_a_run_resumes_with_both_learners_from_the_state_of_one():
    learner = make(every=0)
    learn(learner, 5)
    audited = make(every=2)
    audited.load_state(learner.state())
    learn(learner, 5, first=5)
    learn(audited, 5, first=5)
    assert audited.digest() == learner.digest()


@pytest.mark.parametrize("name", sorted(make(BOTH, every=0).state().keys() - {"counters"}))
@pytest.mark.first_quick
def test_a_flipped_bit_of_any_array_is_found_within_a_period_or_had_no_effect(name):
    learner = make(every=4)
    learn(learner, 6)
    flip(OnlineLearner.state(learner)[name], seed=sum(name.encode()))
    try:
        learn(learner, 6, first=6)
    except FaultError as error:
        stop = int(re.search(r"block 0 \(original bytes \d+-(\d+)\)", str(error))[1])
        assert 6 * SIZE < stop <= 8 * SIZE
    else:  # the number was overwritten before anything read it
        clean = make(every=0)
        learn(clean, 12)
        assert learner.digest() == clean.digest()


@pytest.mark.parametrize(
    "name", ["gpt.1.down", "gpt.momentum.0.up", "gpt.embedding", "mixer.table", "mixer.weights", "history"]
)
def test_a_flipped_bit_is_named_with_its_tensor_block_and_bytes(name):
    learner = make(every=1000)
    learn(learner, 3)
    flip(OnlineLearner.state(learner)[name])
    where = rf"audit: block 0 \(original bytes 0-144\): the replica differs in {name} \(1 of [0-9,]+ values\)"
    with pytest.raises(FaultError, match=f"^{where}$"):  # before a digest or a checkpoint is made of it
        learner.digest()


def wrong_once(original, at):
    """The function, with wrong values in the first row of the result of call number `at`; of each call, if it is None."""
    n = 0

    def wrong(*arguments, **keywords):
        nonlocal n
        result = original(*arguments, **keywords)
        n += 1
        if at in (None, n):
            first = result[0] if isinstance(result, tuple) else result
            first = arguments[0] if first is None else first
            first[(0,) * (first.dim() - 1)][:2] = torch.tensor([3, 5]).to(first.dtype)
        return result

    return wrong


@pytest.mark.parametrize("at", [5, None], ids=["once", "always"])
@pytest.mark.parametrize("name", ["frequencies", "squared_relu", "adam_", "nesterov_"])
@pytest.mark.first_quick
def test_a_wrong_result_of_a_kernel_is_found_within_a_period(name, at, monkeypatch):
    monkeypatch.setattr(fused, name, wrong_once(getattr(fused, name), at))
    with pytest.raises(FaultError, match=r"differs in (the costs of symbols|gpt\.)"):
        learn(make(every=4), 8, coder=BitCoder(ENCODE))


def test_a_wrong_reading_of_a_decoder_is_found_in_that_segment(monkeypatch):
    original, encoder = Reader.column_decoder, BitCoder(ENCODE)
    learn(make(every=0), 8, coder=encoder)

    def column(reader):
        made = original(reader)
        if reader.n_columns == 6 * SIZE:
            made.arrays.head.levels[0, :, 0] ^= 1 << 6
        return made

    monkeypatch.setattr(Reader, "column_decoder", column)
    with pytest.raises(FaultError, match=r"original bytes 240-288\): .* differs in the costs of symbols"):
        learn(make(every=1000), 8, coder=BitCoder(DECODE, encoder.payload()))
