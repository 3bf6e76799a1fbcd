"""A causal language model of the transformers library that learns online, as a learner over the ids of its tokenizer."""

import warnings
from typing import Any

import torch

from prequential.adapters.hub import load_model, quiet
from prequential.adapters.torch_module import TorchLearner
from prequential.errors import MissingDependencyError


class TransformersLearner(TorchLearner):
    """All weights learn, or with `lora` only those of low-rank adapters (the peft package).

    It writes no archive: its symbols are ids.
    """

    def __init__(
        self,
        name: str,
        *,
        lr: float = 1e-4,
        lora: int = 0,
        window: int = 256,
        rows: int = 1,
        steps: int = 1,
        seed: int = 0,
    ) -> None:
        """name: a folder of `save_pretrained` with its tokenizer, or a name on the hub. lr: of AdamW. lora: the rank of the
        adapters; 0: all weights learn. The rest as of TorchLearner.
        """
        torch.manual_seed(seed)
        loaded = load_model(name)
        model = loaded.model
        n_symbols = int(model.get_input_embeddings().num_embeddings)
        if lora:
            model = _with_lora(model, lora)
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
        super().__init__(
            model, optimiser, window=window, rows=rows, steps=steps, n_symbols=n_symbols, seed=seed, forward=_logits_of
        )
        self.tokenizer = loaded.tokenizer


def _logits_of(module: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    with quiet():
        logits: torch.Tensor = module(ids).logits
    return logits


def _with_lora(model: Any, rank: int) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingDependencyError("lora needs the peft package: pip install 'prequential[lora]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the two libraries tell each other
        return peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
