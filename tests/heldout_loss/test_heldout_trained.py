"""Trained learners: the checkpoint of an interrupted run, or a finished run, is loaded, or refused in one line."""

import errno
import json
import os

import numpy as np
import pytest
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import ENCODE, BitCoder
from prequential_corpora import chunks
from prequential_corpora.bundled import sample_path

import prequential
from prequential.errors import CheckpointError, ConfigError, OutputError
from prequential.evaluation.runs import Run
from prequential.heldout_loss import trained
from prequential.heldout_loss.trained import kind_of, load_trained
from prequential.model.config import Config, MixerConfig, ScheduleConfig
from prequential.online import checkpoint
from prequential.online.model_store import save_model
from prequential.online.runtime import Runtime
from prequential.online.training import train
from prequential.records.record import append_record
from prequential.records.schema import parse_object

CONFIG = Config(
    gpt=None,
    mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=6),
    schedule=ScheduleConfig(history_bits=14, block_symbols=1024),
)
RUNTIME = Runtime(threads=1, kernels="fused")
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 2000)
TOTALS = dict.fromkeys(checkpoint.TOTALS, 0) | {"code_bits": 0.0}


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a run that has read 700 of 2000 bytes, and its learner."""
    learner = RUNTIME.learner(CONFIG)
    train(learner, TEXT[:700])
    header = Header(n_bytes=2000, blake2b=bytes(32), config=CONFIG.to_dict(), corpus={"kind": "file", "name": "carol"})
    path = tmp_path / "carol.pq.checkpoint"
    coder, words = BitCoder(ENCODE).saved()
    state = checkpoint.Saved(totals=TOTALS, n_open=700, coder=coder, words=words)
    checkpoint.write(path, checkpoint.identity("compress", header), learner, state)
    return path, learner


def load(path, kind="checkpoint", check=lambda config: None):
    return load_trained(str(path), kind, RUNTIME, check, lambda done, n_bytes: None)


def test_a_checkpoint_is_the_learner_at_the_point_of_its_run(saved):
    path, learner = saved
    assert kind_of(str(path)) == "checkpoint"
    loaded, trained_on = load(path)
    assert loaded.digest() == learner.digest()
    record = trained_on.to_record()
    assert (record["source"], record["name"], record["n_bytes"], record["whole_bytes"]) == (
        "checkpoint", "carol", 700, 2000,
    )  # fmt: skip
    json.dumps(record)
    assert trained_on.symbols is None

    def refuse(config):
        assert config == CONFIG
        raise ConfigError("too large")

    with pytest.raises(ConfigError, match="too large"):  # before it is built
        load(path, check=refuse)


def test_a_file_that_is_not_a_checkpoint_is_refused(saved, tmp_path):
    data = saved[0].read_bytes()
    for name, damaged in {
        "cut": data[: len(data) // 2],
        "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
        "nothing": b"",
        "other": data.replace(b"table_bits", b"table_bitz"),
        "number": data.replace(b'\\"n_bytes\\": 2000,', b'\\"n_bytes\\": "20",'),
    }.items():
        path = tmp_path / f"{name}.checkpoint"
        path.write_bytes(damaged)
        assert damaged != data
        with pytest.raises(CheckpointError):
            load(path)


def test_a_name_that_is_not_a_model_run_or_checkpoint_is_a_corpus(tmp_path):
    (tmp_path / "model.json").touch()
    for spec in (str(tmp_path), "-", "sample:christmas_carol", "hf:x", "missing.checkpoint"):
        assert kind_of(spec) == "corpus"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder with the archive of TEXT."""
    prequential.compress(TEXT.tobytes(), tmp_path / "archive.pq", config=CONFIG, runtime=RUNTIME)
    monkeypatch.setattr(trained, "read_run", lambda path: Run(path, {}))
    return tmp_path


def test_the_bytes_of_a_run_are_decoded_into_a_temporary_file(run):
    learner, trained_on = load(run, "run")
    assert trained_on.symbols.tobytes() == TEXT.tobytes()
    assert [document.n_bytes for document in trained_on.documents] == [len(TEXT)]
    expected = RUNTIME.learner(CONFIG)
    done = train(expected, TEXT)
    assert (learner.digest(), trained_on.about["code_bits"]) == (expected.digest(), done.code_bits)


def test_a_run_whose_bytes_do_not_fit_on_the_disk_is_an_output_error(run, monkeypatch):
    class Full:
        """A temporary file on a full disk."""

        name = "full"

        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            pass

    monkeypatch.setattr(chunks.tempfile, "NamedTemporaryFile", lambda **_: Full())
    with pytest.raises(OutputError, match=r"cannot spool to .*: No space left on device"):
        load(run, "run")


def test_the_record_of_a_learner_whose_name_is_not_utf_8_can_be_appended(saved, run, tmp_path):
    odd, learner = os.fsdecode(b"m\xff"), RUNTIME.learner(CONFIG)
    train(learner, TEXT)
    save_model(tmp_path / odd, learner, {"n_bytes": len(TEXT)})
    path = saved[0].rename(tmp_path / f"{odd}.checkpoint")
    (tmp_path / f"{odd}-run").mkdir()
    (tmp_path / "archive.pq").rename(tmp_path / f"{odd}-run" / "archive.pq")
    for kind, spec in (("model", odd), ("checkpoint", path.name), ("run", f"{odd}-run")):
        _, trained_on = load(tmp_path / spec, kind)
        append_record(tmp_path / "records.jsonl", trained_on.to_record())
        record = parse_object((tmp_path / "records.jsonl").read_bytes().splitlines()[-1], "it")
        assert "m\\xff" in record[kind]


def test_a_run_with_a_given_text_and_its_checkpoint_are_refused_as_such(saved, run, tmp_path):
    data = saved[0].read_bytes()
    changed = data.replace(b'\\"config\\": {', b'\\"config\\": {\\"given\\": 1, ', 1)
    header_bytes = int.from_bytes(data[:8], "little") + len(changed) - len(data)
    saved[0].write_bytes(header_bytes.to_bytes(8, "little") + changed[8:])
    assert changed != data
    with pytest.raises(CheckpointError, match="is a checkpoint of a run with given=, whose learner cannot be used"):
        load(saved[0])
    prequential.compress(
        TEXT.tobytes(), tmp_path / "archive.pq", config=CONFIG, given=b"a text", runtime=RUNTIME, overwrite=True
    )
    with pytest.raises(ConfigError, match="is a run with given=, whose learner cannot be used"):
        load(run, "run")
