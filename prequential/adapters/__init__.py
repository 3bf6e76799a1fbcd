"""Learners of other libraries as learners for `prequential.evaluate`. Each imports its library when it is made.

TorchLearner        a torch.nn.Module over bytes, with an optimiser
TransformersLearner a causal language model of transformers, with its tokenizer
StaticModel         the same model, which learns nothing
ClassifierLearner   an object with predict_proba and partial_fit (scikit-learn)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prequential.adapters.classifier import ClassifierLearner
    from prequential.adapters.static_model import StaticModel
    from prequential.adapters.torch_module import TorchLearner, TransformersLearner

__all__ = ["ClassifierLearner", "StaticModel", "TorchLearner", "TransformersLearner"]
_MODULES = {"ClassifierLearner": "classifier", "StaticModel": "static_model"}  # the others: torch_module


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'torch_module')}"), name)
