"""Tiny models of transformers with random weights and a byte-level BPE, saved as folders; and their costs by a plain loop."""

from pathlib import Path
from typing import Any

from prequential_corpora.sources import sample_path

WINDOW, N_IDS = 64, 300


def save_model(folder: Path, seed: int) -> Path:
    """A folder of save_pretrained."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    trained = ByteLevelBPETokenizer()
    text = sample_path("christmas_carol").read_text(encoding="utf-8")[:20_000]
    trained.train_from_iterator([text], vocab_size=N_IDS, special_tokens=["<|endoftext|>"], show_progress=False)
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"vocab_size": N_IDS, "n_positions": WINDOW, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    for parameter in model.parameters():  # far from uniform predictions
        parameter.data *= 3.0
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>")
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return folder


def plain_nats(folder: Path, text: str, stride: int = WINDOW) -> tuple[float, int]:
    """The nats of a text under the model, `stride` ids at a time with the ids before them in the window; and its ids."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from prequential.adapters.hub import quiet

    with quiet():
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(text)
    known, nats = [0, *ids], 0.0
    for start in range(0, len(ids), stride):
        stop = min(start + stride, len(ids))
        seen = torch.tensor([known[max(0, stop - WINDOW) : stop]])
        with torch.no_grad():
            rows = model(seen).logits[0, start - stop :].double().log_softmax(-1)
        nats -= float(rows[range(stop - start), ids[start:stop]].sum())
    return nats, len(ids)
