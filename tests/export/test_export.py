"""The exported GPT does not need this program, and its loss is that of the exact GPT except for rounding."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from prequential_corpora.bundled import sample_path

from prequential.errors import ConfigError, CorpusError, OutputError
from prequential.exact.tables import rotary_table, rotary_wave_numbers
from prequential.export import plain_gpt
from prequential.export.export import export, losses, plain_module
from prequential.model.config import Config, GPTConfig, MixerConfig, ScheduleConfig
from prequential.online.model_store import StoredModel
from prequential.online.runtime import Runtime
from prequential.online.training import train

TOLERANCE = 2e-4  # relative, on text like the training text; docs/DATA.md states 0.1 % and has measurements
CONFIG = Config(
    gpt=GPTConfig(
        n_layers=2, width=32, n_heads=2, contexts=("2", "6", "word", "word2", "after2", "after16", "afterword", "other4"),
        context_bits=10, memory_bits=13, window=16,
    ),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=128, segment_symbols=256, row_symbols=64, n_rows=6, history_bits=14, block_symbols=4000
    ),
)  # fmt: skip
MIXED = replace(CONFIG, mixer=MixerConfig(contexts=("1",), table_bits=6, match_bits=4))
RUNTIME = Runtime(kernels="fused", threads=1)
TEXT = np.frombuffer(sample_path("christmas_carol").read_bytes(), np.uint8)
TEST = TEXT[20_000:22_000]
WITHOUT_PREQUENTIAL = """
import sys
sys.modules["prequential"] = None  # an import of it fails
from gpt import GPT
print(repr(GPT.load(".").code_bits(open("test", "rb").read())))
"""


@pytest.fixture(scope="module")
def learner():
    learner = RUNTIME.learner(CONFIG)
    train(learner, TEXT[:4000])
    return learner


@pytest.fixture(scope="module")
def module(learner):
    return plain_module(learner)


def stored(learner):
    return StoredModel(learner=learner, trained_on={"name": "text"}, digest="")


def test_the_float_loss_agrees_with_the_exact_one_and_the_learner_does_not_change(learner, module):
    before = learner.digest()
    found, again = (losses(learner, module, TEST, RUNTIME) for _ in range(2))
    assert (found, learner.digest()) == (again, before)
    assert found.exact_bits / found.n_bytes < 4.5  # it has learned something
    assert 0 < abs(found.difference) < TOLERANCE


@pytest.mark.parametrize("name", ["embedding", "head.weight", "layers.0.qkv.weight", "layers.1.down.weight"])
def test_the_agreement_depends_on_every_weight(name, learner, module):
    """A missing weight changes the loss by more than the tolerance."""
    changed = plain_module(learner)
    changed.state_dict()[name].zero_()
    assert abs(changed.code_bits(TEST.tobytes()) / losses(learner, module, TEST, RUNTIME).exact_bits - 1) > TOLERANCE


def test_the_cost_does_not_depend_on_the_number_of_positions_at_once(module):
    data = TEST[:300].tobytes()
    at_once = module.code_bits(data, n_at_once=300)
    assert module.memory == 2 * 15 + 15
    for n_at_once in (7, 64):
        assert module.code_bits(data, n_at_once) == pytest.approx(at_once, rel=1e-5)


def test_a_prediction_depends_on_exactly_the_symbols_in_its_memory(module):
    symbols = torch.tensor(TEST[:80].astype(np.int64))[None]
    expected = module(symbols)[0, -1]
    for back, same in ((module.memory + 1, True), (2 * 15, False), (1, False)):
        changed = symbols.clone()
        changed[0, -back] += 1
        assert torch.allclose(module(changed)[0, -1], expected, rtol=0, atol=1e-5 if same else 0) == same
    # not on later symbols
    assert torch.allclose(module(symbols)[0, :40], module(symbols[:, :40])[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_pairs", [1, 2, 3, 8, 16, 31, 32, 64])
def test_the_rotary_angles_are_those_of_the_exact_tables(n_pairs):
    phases = torch.arange(700)[:, None] * rotary_wave_numbers(n_pairs) % 4096
    cos, sin = (table[phases] for table in rotary_table())
    angles = plain_gpt.rotary_angles(700, n_pairs)
    assert (angles.cos() - cos).abs().max() < 2e-6 and (angles.sin() - sin).abs().max() < 2e-6


def test_the_folder_does_not_need_this_program_and_is_not_overwritten(learner, module, tmp_path):
    export(tmp_path / "x", stored(learner))
    (tmp_path / "x" / "test").write_bytes(TEST[:1000].tobytes())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PREQUENTIAL], cwd=tmp_path / "x", capture_output=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert float(done.stdout) == pytest.approx(module.code_bits(TEST[:1000].tobytes()), rel=1e-6)
    config = json.loads((tmp_path / "x" / "config.json").read_text())
    assert config["from"]["trained_on"] == {"name": "text"} and config["model"]["n_layers"] == 2
    with pytest.raises(OutputError, match="exists"):
        export(tmp_path / "x", stored(learner))


def test_a_mixer_does_not_change_the_exported_gpt(module):
    mixed = RUNTIME.learner(MIXED)
    train(mixed, TEXT[:4000])
    exported = plain_module(mixed)
    assert all(torch.equal(a, b) for a, b in zip(exported.parameters(), module.parameters(), strict=True))
    assert abs(losses(mixed, exported, TEST[:500], RUNTIME).difference) < TOLERANCE


def test_a_learner_without_a_gpt_and_an_empty_corpus_are_refused(learner, module, tmp_path):
    with pytest.raises(ConfigError, match="no GPT to export: train one with -5 or -6"):
        export(tmp_path / "x", stored(RUNTIME.learner(replace(MIXED, gpt=None))))
    assert not list(tmp_path.iterdir())
    with pytest.raises(CorpusError, match="empty"):
        losses(learner, module, TEST[:0], RUNTIME)
