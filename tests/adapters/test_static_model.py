"""Frozen models: figures from an independent computation, context policies, and lm-eval's own figures."""

import math

import numpy as np
import pytest
from prequential_corpora.corpus import Document
from prequential_corpora.sources import sample_path

import prequential
from prequential.errors import ConfigError, CorpusError
from prequential.evaluation.baselines import measure_baselines

pytest.importorskip("transformers")
from prequential.adapters import StaticModel

DATA = sample_path("christmas_carol").read_bytes()[60_000:63_000]
SMALL = prequential.Config(gpt=None, mixer=prequential.MixerConfig(contexts=("1", "2", "4"), table_bits=10))


def symbols(data):
    return np.frombuffer(data, np.uint8)


def test_it_stands_beside_the_learner_with_and_without_its_weights(model_folder):
    static = StaticModel(f"hf:{model_folder}")
    result = prequential.evaluate(DATA, config=SMALL, baselines=["gzip", static])
    names = [baseline.name for baseline in result.baselines]
    assert names == ["gzip", static.name, f"{static.name} + weights"]
    free, counted = (result.curves[name] for name in names[1:])
    assert counted.bits[0] - free.bits[0] == pytest.approx(8 * static.weights_bytes)
    read = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    assert static.weights_bytes == sum((model_folder / name).stat().st_size for name in read)
    assert result.baselines[1].compressed_bytes == math.ceil(static.costs(symbols(DATA))[0].sum() / 8)


def test_two_static_models_of_one_name_keep_their_own_curves(model_folder):
    """As of two checkpoints a/final and b/final, or of one model under two contexts."""
    statics = [StaticModel(str(model_folder), stride=stride) for stride in (64, 8)]
    results, curves, _ = measure_baselines(symbols(DATA), statics)
    first, second = statics[0].name, f"{statics[1].name} (2)"
    assert [each.name for each in results] == [first, f"{first} + weights", second, f"{second} + weights"]
    ends = [curves[name].bits[-1] for name in (first, second)]
    assert ends == [pytest.approx(static.costs(symbols(DATA))[0].sum()) for static in statics]
    assert ends[0] != ends[1]


def test_what_cannot_be_used_is_one_line(model_folder, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="stride 65"):
        StaticModel(str(model_folder), stride=65)
    with pytest.raises(ConfigError, match=r"it has no file model\.safetensors"):
        StaticModel(str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="cannot be loaded") as raised:
        StaticModel("hf:nobody/nothing@main")
    assert "\n" not in str(raised.value)
    with pytest.raises(CorpusError, match="byte 1 is none"):
        StaticModel(str(model_folder)).costs(symbols(b"a\xff"))


@pytest.mark.slow
def test_the_figures_are_those_of_lm_eval(model_folder, tokenizer):
    """bits_per_byte, byte_perplexity and word_perplexity of its rolling tasks, on the same text."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.api.metrics import bits_per_byte, weighted_perplexity
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=str(model_folder), device="cpu", batch_size=1, dtype="float32")
    texts = [DATA.decode(), DATA[:500].decode(), DATA[:40].decode()]
    requests = [Instance("loglikelihood_rolling", {}, (text,), i) for i, text in enumerate(texts)]
    theirs = [float(each) for each in model.loglikelihood_rolling(requests)]
    static = StaticModel(str(model_folder), context="document")
    stream, documents = "".join(texts).encode(), []
    for text in texts:
        documents.append(Document("", sum(d.n_bytes for d in documents), len(text.encode())))
    bits = static.costs(symbols(stream), documents)[0]
    ours = [-bits[d.offset : d.offset + d.n_bytes].sum() * math.log(2) for d in documents]
    assert ours == pytest.approx(theirs, rel=1e-4)
    n_bytes, n_words = [len(text.encode()) for text in texts], [len(text.split()) for text in texts]
    for metric, counts in ((bits_per_byte, n_bytes), (weighted_perplexity, n_bytes), (weighted_perplexity, n_words)):
        mine, other = (metric(list(zip(each, counts, strict=True))) for each in (ours, theirs))
        assert mine == pytest.approx(other, rel=1e-4)


def test_uncheatable_evals_figure_is_ours_without_the_first_token_of_each_chunk(model_folder, tokenizer):
    """It sums -log p of all tokens of a chunk but the first, and divides by all bytes (Jellyfish042/uncheatable_eval)."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder).eval()
    static = StaticModel(str(model_folder), context="document")
    chunks = [DATA[start : start + 60] for start in range(0, 600, 60)]
    theirs_nats = first_nats = 0.0
    for chunk in chunks:
        ids = tokenizer.encode(chunk.decode())
        with torch.no_grad():
            logits = model(torch.tensor([[0, *ids]])).logits[0, :-1]
        nats = torch.nn.functional.cross_entropy(logits, torch.tensor(ids), reduction="none").tolist()
        first_nats, theirs_nats = first_nats + nats[0], theirs_nats + sum(nats[1:])
    documents = [Document("", 60 * i, 60) for i in range(10)]
    ours_nats = static.costs(symbols(DATA[:600]), documents)[0].sum() * math.log(2)
    assert ours_nats == pytest.approx(theirs_nats + first_nats, rel=1e-5)
    assert 0.01 < first_nats / ours_nats < 0.2
