"""Exports the GPT of a learner as an ordinary torch module with float32 weights. The folder does not need this program.

It holds gpt.py, a copy of export/plain_gpt.py; config.json, the shape and origin; and model.safetensors, the int8 levels times
their scales. The exact GPT also rounds activations and probabilities, so the losses differ slightly (docs/DATA.md).
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from prequential.errors import ConfigError, CorpusError
from prequential.exact import plain
from prequential.exact.arrays import to_array
from prequential.export import plain_gpt
from prequential.files import PathLike, new_folder, write_text
from prequential.learners.subject import follow
from prequential.model.config import Config, GPTConfig
from prequential.model.frozen import FrozenLearner
from prequential.model.gpt.context_table import UNITS
from prequential.model.learner import OnlineLearner
from prequential.online.checkpoint import save_arrays
from prequential.online.model_store import StoredModel
from prequential.online.runtime import Runtime
from prequential.printable import printable

TENSORS, CONFIG, MODULE = "model.safetensors", "config.json", "gpt.py"
WITHOUT_MIXER = "the context mixer of the model is left out, so the GPT predicts worse than the model"


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The cost of n_bytes under frozen weights, as one stream from an empty window: exactly, and in floating point."""

    n_bytes: int
    exact_bits: float
    float_bits: float

    @property
    def difference(self) -> float:
        """Relative, of the floating-point cost from the exact one."""
        return self.float_bits / self.exact_bits - 1


def check_exportable(config: Config) -> GPTConfig:
    """The configuration of the GPT. Raises ConfigError if the learner has none."""
    if config.gpt is None:
        raise ConfigError("this learner has no GPT to export: train one with -5 or -6")
    return config.gpt


def plain_module(learner: OnlineLearner) -> plain_gpt.GPT:
    """The GPT of the learner as a floating-point module. Raises ConfigError if the learner has none."""
    config = check_exportable(learner.config)
    module = plain_gpt.GPT(_shape(config))
    module.load_state_dict(_weights(learner, config))
    return module.eval()


def export(folder: PathLike, model: StoredModel, *, mode: int = 0o777) -> tuple[plain_gpt.GPT, dict[str, Any]]:
    """Writes the model's GPT to a new folder. Returns it, and the record. Raises ConfigError without a GPT, OutputError."""
    module, shape = plain_module(model.learner), asdict(_shape(check_exportable(model.config)))
    about: dict[str, Any] = {
        "from": {"digest": model.digest, "config": model.config.to_dict(), "trained_on": model.trained_on},
        "left_out": ["mixer"] if model.config.mixer else [],
    }
    with new_folder(folder, mode=mode) as draft:
        save_arrays(draft / TENSORS, {name: to_array(tensor) for name, tensor in module.state_dict().items()})
        write_text(draft / CONFIG, json.dumps({"model": shape, **about}, indent=2) + "\n")
        write_text(draft / MODULE, Path(plain_gpt.__file__).read_text(encoding="utf-8"))
    n_parameters = sum(weight.numel() for weight in module.parameters())
    return module, {"kind": "export", "folder": str(folder), "n_parameters": n_parameters, **about}


def losses(learner: OnlineLearner, module: plain_gpt.GPT, symbols: NDArray[np.uint8], runtime: Runtime) -> Losses:
    """The costs of symbols (n,) under the frozen GPT of the learner and under its module. Raises CorpusError if n is 0."""
    if not len(symbols):
        raise CorpusError("nothing to check: the corpus is empty")
    costs = follow(FrozenLearner(_gpt_alone(learner, runtime)), symbols)
    exact_bits, float_bits = float(sum(bits.sum() for bits in costs)), module.code_bits(symbols.tobytes())
    return Losses(n_bytes=len(symbols), exact_bits=exact_bits, float_bits=float_bits)


def _shape(config: GPTConfig) -> plain_gpt.Shape:
    return plain_gpt.Shape(**{field.name: getattr(config, field.name) for field in fields(plain_gpt.Shape)})


def _weights(learner: OnlineLearner, config: GPTConfig) -> dict[str, torch.Tensor]:
    """The state of the module. Its matrices are (C_out, C_in), those of the learner (C_in, C_out)."""
    assert learner.gpt is not None
    state = learner.gpt.state()

    def matrix(name: str) -> torch.Tensor:
        levels, scale = plain.quantise_columns(state[name])
        return (levels * scale).t().contiguous()

    names = [f"{i}.{name}" for i in range(config.n_layers) for name in ("qkv", "out", "up", "down")]
    hidden = {f"layers.{name}.weight": matrix(name) for name in names}
    contexts = {"contexts": state["contexts"] * (1.0 / UNITS)} if config.contexts else {}
    if learner.history.recall:
        contexts["recall"] = torch.from_numpy(learner.history.recall.arrays.tables.view(np.int32))
    return {"embedding": state["embedding"], **contexts, **hidden, "head.weight": matrix("head")}


def _gpt_alone(learner: OnlineLearner, runtime: Runtime) -> OnlineLearner:
    """A learner without a mixer and before its first byte, whose GPT has the weights of the learner's GPT."""
    assert learner.gpt is not None
    copy = replace(runtime, audit_every=0).learner(replace(learner.config, mixer=None))
    learned = {f"gpt.{name}": to_array(tensor) for name, tensor in learner.gpt.learned_state().items()}
    copy.load_state({**copy.state(), **learned})
    if copy.history.recall and learner.history.recall:
        copy.history.recall.arrays.tables[:] = learner.history.recall.arrays.tables
        copy.history.recall.restart(0)
    return copy


# ---- text of `train`


def format_training(record: dict[str, Any]) -> str:
    """One line: the corpus, its prequential code length, and the folder of the model."""
    corpus = record["trained_on"]
    return printable(
        f"{corpus['name']}: {corpus['n_bytes']:,} bytes read at {corpus['code_bits'] / corpus['n_bytes']:.4f} bits/byte "
        f"(prequential); model {record['digest'][:16]} in {record['model']}"
    )


def format_export(record: dict[str, Any]) -> str:
    """The exported module, and its loss on a corpus if it was checked."""
    lines = [f"{record['folder']}: a GPT with {record['n_parameters']:,} parameters; gpt.py loads it"]
    if record["left_out"]:
        lines.append(WITHOUT_MIXER)
    if check := record.get("check"):
        exact, plain_loss = (check[name] / check["n_bytes"] for name in ("exact_bits", "float_bits"))
        lines.append(
            f"{check['corpus']['name']}, {check['n_bytes']:,} bytes, weights frozen: {exact:.4f} bits/byte under the exact GPT, "
            f"{plain_loss:.4f} under the module ({check['difference']:+.3%})"
        )
    return "\n".join(map(printable, lines))
