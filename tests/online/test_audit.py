"""An audited run gives the same bytes and no false alarm. It finds every flipped bit in time, with its name and cause."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from prequential_codecs.archive import ArchiveReader
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import DECODE, ENCODE, FOLLOW, BitCoder
from small import DEEPER as BOTH

from prequential.errors import ConfigError, FaultError
from prequential.exact import fused
from prequential.exact.backend import Backend
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.reader import Reader
from prequential.model.learner import OnlineLearner
from prequential.online.audit import AuditedLearner, exact_matmuls, opposite
from prequential.online.coding import compress, decompress
from prequential.online.runtime import Runtime

PURE, MIXER = replace(BOTH, mixer=None), replace(BOTH, gpt=None)
CONFIGS = pytest.mark.parametrize("config", [BOTH, PURE, MIXER], ids=["both", "pure", "mixer"])
SENTENCE = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "
)
TEXT = SENTENCE * 9
SYMBOLS = np.frombuffer(TEXT, np.uint8).astype(np.int64)
SIZE = 48  # of a segment


def make(config=BOTH, every=3, threads=1, kernels="fused", backend="float32"):
    return Runtime(threads=threads, kernels=kernels, backend=backend, audit_every=every).learner(config)


def learn(learner, n_segments, first=0, before=None, coder=None, after_begin=None):
    """Reads segments first .. first + n_segments - 1. before[i] and after_begin[i] are called in segment i."""
    coder = coder or BitCoder(FOLLOW)
    for i in range(first, first + n_segments):
        symbols = SYMBOLS[i * SIZE : (i + 1) * SIZE].copy()
        (before or {}).get(i, lambda: None)()
        learner.begin(SIZE)
        (after_begin or {}).get(i, lambda: None)()
        learner.code(symbols, coder)
        learner.end(SIZE)
        assert np.array_equal(symbols, SYMBOLS[i * SIZE : (i + 1) * SIZE])


def payload_of(config, n_segments):
    learner, coder = make(config, every=0), BitCoder(ENCODE)
    learn(learner, n_segments, coder=coder)
    return coder.payload()


def flip(tensor, random):
    """Flips one bit of a tensor, in place."""
    array = tensor if isinstance(tensor, np.ndarray) else tensor.numpy()
    words = array.view(f"u{array.itemsize}")
    place = tuple(int(random.integers(n)) for n in words.shape)
    words[place] ^= words.dtype.type(1 << int(random.integers(8 * array.itemsize)))


def archive_of(config, runtime):
    header = Header(n_bytes=len(TEXT), blake2b=bytes(32), config=config.to_dict())
    sink = io.BytesIO()
    for _ in compress(np.frombuffer(TEXT, np.uint8), header, sink, runtime.learner(config)):
        pass
    return sink.getvalue()


# ---- clean runs


@CONFIGS
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.first_quick
def test_an_audit_changes_no_byte_and_finds_nothing_in_a_clean_run(config, every, threads):
    archive = archive_of(config, Runtime(threads=1))
    audited = Runtime(threads=threads, audit_every=every)
    assert archive_of(config, audited) == archive
    sink = io.BytesIO()
    for _ in decompress(ArchiveReader(io.BytesIO(archive)), sink, audited.learner(config)):
        pass
    assert sink.getvalue() == TEXT


def test_a_runtime_without_an_audit_gives_a_plain_learner():
    assert type(make(every=0)) is OnlineLearner
    assert type(make(every=1)) is AuditedLearner
    with pytest.raises(ConfigError):
        Runtime(audit_every=-1)


# ---- memory


def names_at_rest():
    return sorted(make(every=1).gpt.tensors().keys() - {"counters"})


@pytest.mark.parametrize("name", names_at_rest())
@pytest.mark.first_quick
def test_a_bit_of_the_gpt_flipped_between_segments_is_found_in_the_next(name):
    random = np.random.default_rng(sum(name.encode()))
    learner, i = make(every=50), int(random.integers(1, 9))
    with pytest.raises(FaultError, match=rf"bytes {i * SIZE}-{i * SIZE + SIZE}\): gpt\.{name}: .*cause: memory$"):
        learn(learner, i + 1, before={i: lambda: flip(learner.gpt.tensors()[name], random)})
    assert learner._stop == (i + 1) * SIZE


@pytest.mark.parametrize("name", [name for name in names_at_rest() if not name.startswith("carried.")])
@pytest.mark.first_quick
def test_a_bit_of_the_gpt_flipped_just_before_its_update_is_found_in_that_segment(name, monkeypatch):
    """The worst moment: after all checks at the beginning of the segment."""
    random = np.random.default_rng(sum(name.encode()))
    learner, i = make(every=50), int(random.integers(2, 9))
    original = GPT._forward_rows

    def forward_rows(gpt, *rows):
        result = original(gpt, *rows)
        if gpt._n_updates == i:
            flip(learner.gpt.tensors()[name], random)
        return result

    monkeypatch.setattr(GPT, "_forward_rows", forward_rows)
    with pytest.raises(FaultError, match=rf"bytes {i * SIZE}-{i * SIZE + SIZE}\): gpt\.{name}[:,].*cause: memory"):
        learn(learner, i + 1)


@pytest.mark.parametrize("config", [BOTH, MIXER], ids=["both", "mixer"])
@pytest.mark.parametrize("name", ["history", *(f"mixer.{name}" for name in make(MIXER, 1).mixer.state())])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.first_quick
def test_a_flipped_bit_of_mixer_or_history_is_found_within_a_period(name, config, seed):
    random = np.random.default_rng(seed + sum(name.encode()))
    every = int(random.integers(1, 6))
    learner, i = make(config, every), int(random.integers(1, 10))
    tensor = OnlineLearner.state(learner)[name]
    try:
        learn(learner, i + every, before={i: lambda: flip(tensor, random)})
    except FaultError as error:
        # A wrong entry of a deterministic context may become a bucket.
        found = "(mixer.deterministic|mixer.table)" if name == "mixer.deterministic" else name
        assert re.search(rf"{found}[:,].*cause: memory", str(error))
        assert learner._stop <= (i + every) * SIZE
        return
    # short-lived: the number was overwritten before anything read it
    assert name in (
        "mixer.past",
        "mixer.matches",
        "mixer.deterministic",
        "mixer.followers",  # a mixer without contexts of them has one number in each table
        "mixer.fields",  # the same
    )
    clean = make(config, every)
    learn(clean, i + every)
    assert learner.digest() == clean.digest()


@CONFIGS
def test_a_fault_is_found_before_a_digest_or_a_checkpoint(config):
    learner = make(config, every=1000)
    learn(learner, 3)
    flip(learner.history.ring, np.random.default_rng(3))
    with pytest.raises(FaultError, match=r"block 0 \(original bytes 0-144\): history: "):
        learner.digest()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_wrong_symbol_in_a_row_of_a_step_is_found_before_the_step(threads):
    learner = make(every=1000, threads=threads)
    learn(learner, 4)
    learner.history.ring[np.arange(4 * SIZE - 3, 4 * SIZE)] ^= 1
    with pytest.raises(FaultError, match=r"\(original bytes 192-240\): history: .*memory"):
        learner.begin(SIZE)


def test_a_flipped_bit_of_the_encoder_is_found_in_that_segment():
    learner, coder = make(MIXER, every=1000), BitCoder(ENCODE)
    learn(learner, 4, coder=coder)
    coder.words[1] ^= 1 << 20
    with pytest.raises(FaultError, match="the coder: "):
        learn(learner, 1, 4, coder=coder)


# ---- processor, library, program


class Flips:
    """Replaces a function of tensors. Flips a bit of its first result in the calls whose number `when` accepts."""

    def __init__(self, original, when):
        self.original, self.when, self.n = original, when, 0

    def __call__(self, *arguments, **keywords):
        result = self.original(*arguments, **keywords)
        self.n += 1
        if self.when(self.n):
            first = result[0] if isinstance(result, tuple) else result
            flip(first, np.random.default_rng(self.n))
        return result


@pytest.mark.parametrize("config", [BOTH, PURE], ids=["both", "pure"])
@pytest.mark.first_quick
def test_a_bit_flipped_once_in_a_prediction_is_found_in_that_segment(config, monkeypatch):
    learner, i = make(config, every=1000), 6

    def reading():
        monkeypatch.setattr(fused, "frequencies", Flips(fused.frequencies, lambda n: n == 1))

    with pytest.raises(FaultError, match=r"\(original bytes 288-336\): gpt\..*cause: memory or processor"):
        learn(learner, i + 1, coder=BitCoder(ENCODE), after_begin={i: reading})


def patch_columns(monkeypatch, when):
    """Columns are read with changed levels if `when` accepts their reader."""
    original = Reader.column_decoder

    def column(reader):
        fresh = reader._column_decoder is None
        made = original(reader)
        if fresh and when(reader):
            made.arrays.head.levels[0, :, 0] ^= 1 << 6
        return made

    monkeypatch.setattr(Reader, "column_decoder", column)


@pytest.mark.parametrize("mode", [ENCODE, DECODE])
@pytest.mark.parametrize("config", [BOTH, PURE], ids=["both", "pure"])
def test_a_bit_flipped_once_in_the_levels_of_a_reading_is_found_in_that_segment(config, mode, monkeypatch):
    learner = make(config, every=1000)
    patch_columns(monkeypatch, lambda reader: reader is learner.gpt._reader and reader.n_columns == 6 * SIZE)
    with pytest.raises(FaultError, match=r"\(original bytes 240-288\): .*cause: memory or processor"):
        learn(learner, 8, coder=BitCoder(mode, payload_of(config, 8)) if mode == DECODE else BitCoder(mode))


@pytest.mark.parametrize("mode", [ENCODE, DECODE])
@pytest.mark.parametrize("every", [1, 4])
def test_a_backend_that_always_deviates_is_named(every, mode, monkeypatch):
    coder = BitCoder(mode, payload_of(BOTH, 8)) if mode == DECODE else BitCoder(mode)
    original = Matmul.__call__

    def wrong(m, a, b):
        result = original(m, a, b)
        if m.name == "float32":
            result[0, 0] += 1 << 12
        return result

    monkeypatch.setattr(Matmul, "__call__", wrong)
    with pytest.raises(FaultError, match=r"gpt\..*cause: library \(products by float32 differ "):
        learn(make(every=every), 2 * every, coder=coder)


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("name", ["squared_relu", "frequencies", "adam_", "nesterov_"])
def test_a_compiled_kernel_that_always_deviates_is_a_fault_of_the_program(name, every, monkeypatch):
    original = getattr(fused, name)

    def wrong(*arguments, **keywords):
        result = original(*arguments, **keywords)
        first = result[0] if isinstance(result, tuple) else result
        first = arguments[0] if first is None else first
        first[(0,) * (first.dim() - 1)][:2] = torch.tensor([3, 5]).to(first.dtype)
        return result

    monkeypatch.setattr(fused, name, wrong)
    with pytest.raises(FaultError, match=r"gpt\..*cause: program"):
        learn(make(every=every), 4 + 2 * every, coder=BitCoder(ENCODE))  # the first steps change the head only


def test_columns_that_always_deviate_are_a_fault_of_the_program(monkeypatch):
    patch_columns(monkeypatch, lambda reader: True)
    with pytest.raises(FaultError, match=r"cause: program"):
        learn(make(every=1), 4, coder=BitCoder(DECODE, payload_of(BOTH, 4)))


def test_the_opposite_backend_shares_neither_kernels_nor_products():
    names = {matmul.name for matmul in exact_matmuls()}
    assert {"float32", "float64"} <= names
    for name in names:
        other = opposite(Backend(fused, Matmul(name), Pool(1)))
        assert other.primitives is not fused
        assert name != other.matmul.name
        assert (name == "float64") != (other.matmul.batches == "float64")
        assert other.matmul.batched(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).tolist() == [[[4.0] * 5] * 3] * 2
