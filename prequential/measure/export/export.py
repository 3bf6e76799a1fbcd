"""A learner's GPT as an ordinary torch module with float32 weights, in a folder that needs nothing of this program.

    FOLDER/gpt.py             the module: measure/export/plain_gpt.py, copied
    FOLDER/config.json        its shape, and where its weights come from
    FOLDER/model.safetensors  the weights, float32

The weights are those that the exact GPT predicts with: of matrices the int8 levels times their scales. What is left of a
difference in loss is what the exact one rounds besides: activations, keys, values and attention weights to 8 bits, probabilities
to steps of 1/64 nat (docs/MODELS.md has its size).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prequential.codecs.bit_coder import FOLLOW, BitCoder
from prequential.errors import ConfigError, CorpusError
from prequential.exact import plain
from prequential.files import PathLike, new_folder, write_text
from prequential.measure.export import plain_gpt
from prequential.measure.study.references import code
from prequential.model.config import GPTConfig
from prequential.model.frozen import Frozen
from prequential.model.learner import Learner
from prequential.online.checkpoint import save_tensors
from prequential.online.runtime import Runtime

TENSORS, CONFIG, MODULE = "model.safetensors", "config.json", "gpt.py"
SHAPE = ("n_layers", "width", "n_heads", "mlp_factor", "n_embeddings", "contexts", "context_bits", "window")


@dataclass(frozen=True, kw_only=True)
class Losses:
    """What a corpus of n_bytes costs frozen weights, read as one stream from empty memory: exactly, and by the float module."""

    n_bytes: int
    exact_bits: float
    float_bits: float

    @property
    def difference(self) -> float:
        """Of the float module's, as a share of the exact one."""
        return self.float_bits / self.exact_bits - 1


def plain_module(learner: Learner) -> plain_gpt.GPT:
    """The learner's GPT as a float module. Raises ConfigError without one."""
    config = _gpt_config(learner)
    module = plain_gpt.GPT(**{name: getattr(config, name) for name in SHAPE})
    module.load_state_dict(_weights(learner, config))
    return module.eval()


def export(folder: PathLike, learner: Learner, about: Mapping[str, Any]) -> plain_gpt.GPT:
    """Writes the GPT's module to a new folder, and returns it. about: JSON values for config.json beside the shape.

    Raises ConfigError without a GPT, OutputError.
    """
    module = plain_module(learner)
    shape = {name: getattr(learner.config.gpt, name) for name in SHAPE}
    with new_folder(folder) as draft:
        save_tensors(draft / TENSORS, module.state_dict())
        write_text(draft / CONFIG, json.dumps({"model": shape, **about}, indent=2) + "\n")
        write_text(draft / MODULE, Path(plain_gpt.__file__).read_text(encoding="utf-8"))
    return module


def losses(learner: Learner, module: plain_gpt.GPT, symbols: NDArray[np.uint8], runtime: Runtime) -> Losses:
    """What symbols (n,) cost the learner's GPT, frozen, and the module made of it. Raises CorpusError for an empty corpus."""
    if not len(symbols):
        raise CorpusError("nothing to check: the corpus is empty")
    curve = code(Frozen(_beginning(learner, runtime)), BitCoder(FOLLOW), np.array(symbols))
    return Losses(
        n_bytes=len(symbols),
        exact_bits=float(curve.bits[-1]),
        float_bits=module.code_bits(symbols.tobytes()),
    )


def _gpt_config(learner: Learner) -> GPTConfig:
    if learner.config.gpt is None:
        raise ConfigError("this learner has no GPT, so there is nothing to export: train one with preset 3 or above")
    return learner.config.gpt


def _weights(learner: Learner, config: GPTConfig) -> dict[str, torch.Tensor]:
    """The module's state: its matrices are (C_out, C_in), those of the learner (C_in, C_out)."""
    state = learner.state()

    def matrix(name: str) -> torch.Tensor:
        levels, scale = plain.quantise_columns(state[f"gpt.{name}"])
        return (levels * scale).t().contiguous()

    hidden = {
        f"layers.{i}.{name}.weight": matrix(f"{i}.{name}")
        for i in range(config.n_layers)
        for name in ("qkv", "out", "up", "down")
    }
    contexts = {"contexts": state["gpt.contexts"]} if config.contexts else {}
    return {"embedding": state["gpt.embedding"], **contexts, **hidden, "head.weight": matrix("head")}


def _beginning(learner: Learner, runtime: Runtime) -> Learner:
    """The learner's GPT alone, before its first byte: its weights, and nothing that it has read."""
    begun = replace(runtime, audit_every=0).learner(replace(learner.config, mixer=None))
    learned = {name: tensor for name, tensor in learner.state().items() if _is_weight(name)}
    begun.load_state({**begun.state(), **learned})
    return begun


def _is_weight(name: str) -> bool:
    """Of a learner's state: the GPT's, but for what it has read and how far it is."""
    return name.startswith("gpt.") and not name.startswith(("gpt.carried.", "gpt.counters"))
