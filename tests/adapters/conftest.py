"""Small models of transformers, made here: random weights, and a byte-level BPE trained on a sample."""

import sys
from pathlib import Path

import pytest
from prequential_corpora.sources import sample_path

sys.path.insert(0, str(Path(__file__).parent))
TEXT = sample_path("christmas_carol").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def tokenizer():
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT[:60_000]], vocab_size=400, special_tokens=["<|endoftext|>"], show_progress=False)
    inner = trained._tokenizer
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>")


@pytest.fixture(scope="session", params=["gpt2", "llama"])
def model_folder(request, tokenizer, tmp_path_factory):
    """A folder of save_pretrained."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    if request.param == "gpt2":
        config = GPT2Config(
            vocab_size=400, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        model = GPT2LMHeadModel(config)
    else:
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=400, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
            )
        )  # fmt: skip
    for parameter in model.parameters():  # far from uniform predictions
        parameter.data *= 3.0
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
