"""train: a line of text, a JSON object, and one line for each refusal."""

import hashlib
import json
import os
import signal
import subprocess
from dataclasses import replace

import pytest
from interruption import InterruptionError, stopping_at
from prequential_codecs.archive_header import Header
from prequential_corpora.sources import open_corpus
from small import MIXER
from studies import TINY

import prequential
from prequential.online.model_store import load_model
from prequential.online.training import train, training_checkpoints

BOTH = replace(TINY, mixer=MIXER)
FUSED = ("--kernels", "fused", "--threads", "1")


@pytest.fixture(scope="module")
def folder(run, text, small_config, tmp_path_factory):
    """A corpus, two configurations, and a model of each."""
    folder = tmp_path_factory.mktemp("train")
    (folder / "a").write_bytes(text)
    (folder / "both.json").write_text(json.dumps(BOTH.to_dict()))
    done = run(folder, "train", "a", "-o", "both", "--limit", "2000", "--config", "both.json", "--json", *FUSED)
    assert (done.returncode, done.stderr) == (0, b"")
    (folder / "both.record").write_bytes(done.stdout)
    (folder / "mixer.json").write_text(small_config.read_text())
    return folder


def test_the_record_agrees_with_the_stored_model(folder, text):
    record = json.loads((folder / "both.record").read_text())
    model = load_model(folder / "both", prequential.Runtime(kernels="fused"))
    assert record["digest"] == model.digest
    assert record["trained_on"] == model.trained_on
    assert record["config"] == json.loads(json.dumps(model.config.to_dict()))
    assert (model.trained_on["name"], model.trained_on["n_bytes"], model.trained_on["limit_bytes"]) == ("a", 2000, 2000)
    assert model.trained_on["prequential"] == prequential.__version__
    archive = prequential.compress(text[:2000], config=BOTH, runtime=prequential.Runtime(kernels="fused"))
    assert 0 < 8 * len(archive) - model.trained_on["code_bits"] < 8 * 500  # header and container


def test_the_line_has_the_cost_of_the_corpus(run, folder, tmp_path, text):
    done = run(tmp_path, "train", str(folder / "a"), "-o", "m", "--config", str(folder / "mixer.json"), *FUSED)
    shown = done.stdout.decode()
    assert shown.startswith(f"a: {len(text):,} bytes read at ") and shown.endswith(" in m\n") and done.stderr == b""


def test_an_interrupted_training_resumes_to_the_same_model(run, folder, tmp_path, always_due):
    (tmp_path / "a").write_bytes((folder / "a").read_bytes())
    corpus = open_corpus(tmp_path / "a")
    symbols = corpus.bytes()[:2000]
    blake2b = hashlib.blake2b(symbols, digest_size=32).digest()
    header = Header(n_bytes=2000, blake2b=blake2b, config=BOTH.to_dict(), corpus=corpus.describe())
    with pytest.raises(InterruptionError), training_checkpoints(tmp_path / "m", resume=False) as checkpoints:
        learner = prequential.Runtime(kernels="fused", threads=1).learner(BOTH)
        train(learner, symbols, stopping_at(4), (checkpoints, header))
    options = ("-o", "m", "--limit", "2000", "--config", str(folder / "both.json"), "--json", *FUSED)
    refused = run(tmp_path, "train", "a", *options)
    assert (refused.returncode, refused.stderr.count(b"\n")) == (1, 1)
    done = run(tmp_path, "train", "a", *options, "--resume")
    assert (done.returncode, done.stderr) == (0, b"")
    whole, again = (json.loads(text) for text in ((folder / "both.record").read_text(), done.stdout))
    assert (again["digest"], again["trained_on"]) == (whole["digest"], whole["trained_on"])
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.first_quick
def test_an_interrupted_training_leaves_nothing(start, tmp_path, number, code):
    """The interruption comes after the corpus was read from a pipe."""
    process = start(tmp_path, "train", "-", "-o", "m", *FUSED, stdin=subprocess.PIPE)
    process.stdin.write(os.urandom(1 << 20))
    process.stdin.close()
    process.stdin = None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert b"Traceback" not in err
    assert not list(tmp_path.iterdir())
