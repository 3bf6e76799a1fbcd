"""Models of several families with their kinds of tokenizer, from a folder to the record, on a text that is hard to restore."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_tokenizers import FAMILIES, FIRST, HARD
from prequential_corpora.sources import sample_path

import prequential
from prequential.adapters import StaticModel
from prequential.errors import ConfigError, CorpusError
from prequential.online.costs import memory_bytes
from prequential.online.source import open_source

transformers = pytest.importorskip("transformers")
SIZE = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2}
HEADS = {"intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
EVERY, ONCE, NONE = "before every window", "before the first window", "window 2048 (the model states none)"
# By kind: its configuration, its tokenizer, what tokenizer_config.json says, and what the policy says of windows.
KINDS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], str]] = {
    "llama": ("llama", SIZE | HEADS, "prepend", {"add_bos_token": True}, EVERY),
    "llama, by its template": ("llama", SIZE | HEADS, "first", {}, EVERY),
    "llama, without": ("llama", SIZE | HEADS, "first", {"add_bos_token": False}, ONCE),
    "gemma": ("gemma", SIZE | HEADS | {"head_dim": 16}, "gemma", {"add_bos_token": False}, EVERY),
    "qwen": ("qwen2", SIZE | HEADS | {"max_window_layers": 2}, "byte-level", {"eos_token": FIRST}, ONCE),
    "bloom": ("bloom", SIZE | {"n_layer": 2, "n_head": 2}, "byte-level", {"eos_token": FIRST}, NONE),
    "mamba": ("mamba", SIZE | {"state_size": 4}, "byte-level", {"eos_token": FIRST}, NONE),
}


def saved(kind: str, folder: Path) -> Path:
    model_type, sizes, family, says, _ = KINDS[kind]
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(model_type, **sizes))
    for parameter in model.parameters():
        parameter.data *= 2.0
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(FAMILIES[family]()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"} | says))
    return folder


def bits_of_library(folder: Path, ids: list[int]) -> float:
    """Of all ids but the first, from one pass."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0].double(), -1)
    return float(-rows[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].sum() / math.log(2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_hard_text_costs_what_the_library_says(kind: str, tmp_path: Path) -> None:
    folder, policy = saved(kind, tmp_path), KINDS[kind][-1]
    static = StaticModel(f"hf:{folder}")
    assert policy in static.policy
    data = HARD.encode()[:40]
    first = static.tokenizer.ids["<s>" if "<s>" in static.tokenizer.ids else FIRST]
    ids = [first, *static.tokenizer.encode(data)]
    assert len(ids) <= 64
    costs, _ = static.costs(np.frombuffer(data, np.uint8))
    assert len(costs) == len(data)
    assert costs.sum() == pytest.approx(bits_of_library(folder, ids), rel=1e-4)


@pytest.mark.parametrize("context", ["isolated", "carried"])
def test_a_document_that_the_tokenizer_cannot_carry_is_named_with_the_reason(context: Any, tmp_path: Path) -> None:
    folder, docs = saved("llama", tmp_path / "model"), tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("the cat sat", encoding="utf-8")
    (docs / "b.txt").write_text("a caf\u00e9 \u2581 the", encoding="utf-8")
    reason = r"document 'b\.txt' cannot be scored: .*: '\u2581' at byte 8 comes back as ' '$"
    with pytest.raises(CorpusError, match=reason):
        prequential.heldout(docs, static=f"hf:{folder}", context=context)
    (docs / "b.txt").write_bytes(b"\xff")
    source = open_source(docs)
    with pytest.raises(CorpusError, match=r"document 'b\.txt' cannot .* byte 0 is none$"):
        StaticModel(str(folder), context="document").costs(source.symbols, source.documents)


@pytest.mark.parametrize("kind", ["llama", "llama, without"])
def test_the_first_id_stands_before_every_window_of_a_model_that_was_trained_so(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path)
    data = sample_path("christmas_carol").read_bytes()[60_000:60_200]
    static = StaticModel(str(folder), stride=16)
    ids, expected = [1, *static.tokenizer.encode(data)], 0.0
    for start in range(1, len(ids), 16):
        stop = min(start + 16, len(ids))
        seen = ids[max(0, stop - 65) : stop]
        if kind == "llama" and stop > 65:
            seen = [1, *seen[1:]]
        n_scored = stop - start
        expected += bits_of_library(folder, seen) - (
            bits_of_library(folder, seen[:-n_scored]) if seen[1:-n_scored] else 0.0
        )
    assert static.costs(np.frombuffer(data, np.uint8))[0].sum() == pytest.approx(expected, rel=1e-4)


def test_a_model_of_a_large_vocabulary_and_window_takes_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = saved("qwen", tmp_path)
    monkeypatch.setattr("prequential.adapters.static_model.MAX_LOGITS", 400 * 10)
    assert StaticModel(str(folder)).run_symbols == 10
    with pytest.raises(ConfigError, match="with the logits of 64 ids it takes"):
        StaticModel(str(folder), stride=64, max_memory_bytes=400_000)
    StaticModel(str(folder), stride=4, max_memory_bytes=400_000)
    with pytest.raises(ConfigError, match="cannot be loaded: it takes"):
        StaticModel(str(folder), max_memory_bytes=1000)


def test_a_learner_has_to_fit_beside_a_static_model(tmp_path: Path) -> None:
    static = StaticModel(str(saved("llama", tmp_path)))
    config = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2"), table_bits=22))
    needed = memory_bytes(config, n_threads=1)
    plain = {"kernels": "plain", "threads": 1}
    for more in (-1, 1 << 20):
        runtime = prequential.Runtime(**plain, max_memory_bytes=needed + static.memory_bytes + more)
        if more < 0:
            with pytest.raises(ConfigError, match="max_memory_bytes"):
                prequential.evaluate(b"abc" * 9, config=config, runtime=runtime, baselines=[static])
        else:
            prequential.evaluate(b"abc" * 9, config=config, runtime=runtime, baselines=[static])
