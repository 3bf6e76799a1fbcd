"""One text given another: archives need it, and refuse any other; runs resume; stored models serve as well."""

import io
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from prequential_codecs.archive import ArchiveReader, ArchiveWriter
from prequential_codecs.archive_header import Header
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import ConfigError, CorruptArchiveError
from prequential.learners.given import with_history_for
from prequential.learners.spec import code_lengths
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.model.presets import preset
from prequential.online.coding import config_of
from prequential.online.model_store import save_model
from prequential.online.runtime import Runtime
from prequential.online.training import train

TEXT = sample_path("christmas_carol").read_bytes()
A, B = TEXT[:3000], TEXT[3000:4500]
MIXER = MixerConfig(contexts=("1", "2", "4", "word"), table_bits=12, match_bits=12)
SCHEDULE = ScheduleConfig(
    first_segment_symbols=40, segment_symbols=48, row_symbols=16, n_rows=3, history_bits=14, block_symbols=500
)
ALONE = Config(gpt=None, mixer=MIXER, schedule=SCHEDULE)
BOTH = Config(gpt=GPTConfig(n_layers=1, width=32, n_heads=2, window=16), mixer=MIXER, schedule=SCHEDULE)
ONE = Runtime(threads=1)


@pytest.mark.parametrize("config", [ALONE, BOTH], ids=["mixer", "both"])
def test_an_archive_costs_less_given_a_text_and_decodes_with_it_only(config):
    archive = prequential.compress(B, config=config, given=A, runtime=ONE)
    assert len(archive) < len(prequential.compress(B, config=config, runtime=ONE)) - 30
    assert prequential.decompress(archive, given=A, runtime=ONE) == B
    for other in (A[:-1], A + b"x", B, A[:-1] + b"x"):
        with pytest.raises(ConfigError, match=r"needs the text of 3,000 bytes with BLAKE2b \w{16}, and given= names"):
            prequential.decompress(archive, given=other, runtime=ONE)
    with pytest.raises(ConfigError, match=r"needs the text of 3,000 bytes .* to decode"):
        prequential.decompress(archive, runtime=ONE)


def test_the_cost_is_that_of_a_learner_that_was_trained():
    result = prequential.evaluate(B, config=BOTH, given=A, runtime=ONE, baselines=("xz",), verify=True)
    learner = ONE.learner(with_history_for(BOTH, len(A)))
    train(learner, np.frombuffer(A, np.uint8))
    assert result.code_bits == sum(bits.sum() for bits in code_lengths(learner, np.frombuffer(B, np.uint8)))
    assert set(result.trace.parts) == {"model", "gpt", "mixer"}
    assert result.trace.total_bits("mixer") < 8 * len(B)
    record = result.record
    assert record["config"]["given"]["n_symbols"] == len(A) and f", given {len(A):,} bytes" in str(result)
    assert "after what was given" in record["baselines"][0]["label"]
    alone = prequential.evaluate(B, config=ALONE, runtime=ONE, baselines=("xz",)).baselines[0]
    assert result.baselines[0].compressed_bytes < alone.compressed_bytes


def test_a_stored_model_serves_as_the_given_text(tmp_path):
    learner = ONE.learner(with_history_for(BOTH, len(A)))
    train(learner, np.frombuffer(A, np.uint8))
    save_model(tmp_path / "M", learner, {})
    archive = prequential.compress(B, given=tmp_path / "M", runtime=ONE)
    by_text = prequential.compress(B, config=BOTH, given=A, runtime=ONE)
    assert abs(len(archive) - len(by_text)) < 40  # the headers differ
    assert prequential.decompress(archive, given=tmp_path / "M", runtime=ONE) == B
    with pytest.raises(ConfigError, match="needs the stored model with digest"):
        prequential.decompress(archive, given=A, runtime=ONE)
    with pytest.raises(ConfigError, match="configuration of its own"):
        prequential.compress(B, config=ALONE, given=tmp_path / "M", runtime=ONE)
    result = prequential.evaluate(B, given=tmp_path / "M", runtime=ONE, baselines=(), verify=True)
    assert result.trace.parts == ("model",)


@pytest.mark.thorough
def test_an_interrupted_run_resumes_after_the_given_text(tmp_path, always_due):
    complete, archive, seen = tmp_path / "a.pq", tmp_path / "b.pq", []
    compress = partial(prequential.compress, B, config=BOTH, given=A, runtime=ONE)
    compress(complete)

    def stop(done, n_bytes):
        if done.n_bytes > 700:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compress(archive, on_progress=stop)
    compress(archive, resume=True, on_progress=lambda done, n: seen.append(done.n_bytes))
    assert seen[0] > 600 and archive.read_bytes() == complete.read_bytes()


@pytest.mark.parametrize("given", [3, {}, {"kind": "text"}, {"kind": "text", "n_symbols": "x"}, []])
def test_a_header_with_a_damaged_entry_is_refused(given):
    file = io.BytesIO()
    header = Header(n_bytes=0, blake2b=bytes(32), config={**ALONE.to_dict(), "given": given})
    ArchiveWriter(file, header).close()
    with pytest.raises(CorruptArchiveError, match="does not say what the learner was given"):
        prequential.decompress(file.getvalue(), runtime=ONE)
    reader = ArchiveReader(io.BytesIO(file.getvalue()))
    assert config_of(reader.header, knows_given=True) == ALONE


def test_ring_and_index_of_matches_hold_both_texts():
    config = preset(2)
    assert with_history_for(config, 1000) == config
    long = with_history_for(config, 40_000_000)
    assert (long.schedule.history_bits, long.mixer.match_bits) == (27, 25)
    assert replace(long, schedule=config.schedule, mixer=config.mixer) == config
    assert with_history_for(preset(5, pure=True), 1 << 30).schedule.history_bits == 28


def test_another_text_is_refused_before_it_is_read_by_the_learner(monkeypatch):
    archive = prequential.compress(B, config=ALONE, given=A, runtime=ONE)

    def learned(*_):
        raise AssertionError("the learner has read a text that the archive does not need")

    monkeypatch.setattr("prequential.learners.given.train", learned)
    with pytest.raises(ConfigError, match="given= names another one"):
        prequential.decompress(archive, given=A + b"x", runtime=ONE)
    with pytest.raises(prequential.CorpusError, match="missing"):
        prequential.evaluate("missing", config=ALONE, given=A, runtime=ONE)
    with pytest.raises(ConfigError, match="more than once"):
        prequential.compress(B, config=ALONE, given="-", runtime=ONE)
