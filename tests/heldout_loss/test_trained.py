"""Trained learners: a finished run or a model is loaded, or refused in one line."""

import errno
import os

import numpy as np
import pytest
from prequential_corpora import corpus as chunks
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import ConfigError, OutputError
from prequential.evaluation.runs import Run
from prequential.heldout_loss.trained import kind_of, load_trained
from prequential.learners.spec import own_spec
from prequential.model.config import Config, MixerConfig, ScheduleConfig
from prequential.online.model_store import save_model
from prequential.online.runtime import Runtime
from prequential.online.training import train
from prequential.records import append_record, parse_object

CONFIG = Config(
    gpt=None,
    mixer=MixerConfig(contexts=("1", "2"), table_bits=6, match_bits=6),
    schedule=ScheduleConfig(history_bits=14, block_symbols=1024),
)
RUNTIME = Runtime(threads=1, kernels="fused")
TEXT = np.fromfile(sample_path("christmas_carol"), np.uint8, 2000)


def load(path, kind, make_spec=lambda config: own_spec(config, RUNTIME)):
    return load_trained(str(path), kind, make_spec, RUNTIME, lambda done, n_bytes: None)


def test_a_name_that_is_not_a_model_or_run_is_a_corpus(tmp_path):
    (tmp_path / "model.json").touch()
    for spec in (str(tmp_path), "-", "sample:christmas_carol", "hf:x", "missing.checkpoint"):
        assert kind_of(spec) == "corpus"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder with the archive of TEXT."""
    prequential.compress(TEXT.tobytes(), tmp_path / "archive.pq", config=CONFIG, runtime=RUNTIME)
    monkeypatch.setattr("prequential.heldout_loss.trained.read_run", lambda path: Run(path, {}))
    return tmp_path


def test_the_bytes_of_a_run_are_decoded_into_a_temporary_file(run):
    trained = load(run, "run")
    assert trained.symbols.tobytes() == TEXT.tobytes()
    assert [document.n_bytes for document in trained.documents] == [len(TEXT)]
    expected = RUNTIME.learner(CONFIG)
    done = train(expected, TEXT)
    assert (trained.learner.digest(), trained.about["code_bits"]) == (expected.digest(), done.code_bits)

    def refuse(config):
        assert config == CONFIG
        raise ConfigError("too large")

    with pytest.raises(ConfigError, match="too large"):  # before it is built
        load(run, "run", make_spec=refuse)


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


def test_the_record_of_a_learner_whose_name_is_not_utf_8_can_be_appended(run, tmp_path):
    odd, learner = os.fsdecode(b"m\xff"), RUNTIME.learner(CONFIG)
    train(learner, TEXT)
    save_model(tmp_path / odd, learner, {"n_bytes": len(TEXT)})
    (tmp_path / f"{odd}-run").mkdir()
    (tmp_path / "archive.pq").rename(tmp_path / f"{odd}-run" / "archive.pq")
    for kind, spec in (("model", odd), ("run", f"{odd}-run")):
        append_record(tmp_path / "records.jsonl", load(tmp_path / spec, kind).about)
        record = parse_object((tmp_path / "records.jsonl").read_bytes().splitlines()[-1], "it")
        assert "m\\xff" in record[kind]


def test_a_run_with_a_given_text_is_refused_as_such(run, tmp_path):
    prequential.compress(
        TEXT.tobytes(), tmp_path / "archive.pq", config=CONFIG, given=b"a text", runtime=RUNTIME, overwrite=True
    )
    with pytest.raises(ConfigError, match="is a run with given=, whose learner cannot be used"):
        load(run, "run")
