"""A torch.nn.Module over bytes as a learner: anyone's model, optimiser and training step.

    model = MyGPT(...)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    prequential.evaluate("book1", learner=TorchLearner(model, optimiser, window=256))

The module maps ids (rows, columns) int64 to logits (rows, columns, V), as a tensor, as the first of a tuple or as `.logits`.
Column t predicts the next id. It must be causal; the evaluator checks that. nanoGPT gives the logits of all columns only if it is
given targets: forward=lambda model, ids: model(ids, ids)[0].
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, log_softmax

from prequential.adapters.hub import load_model, quiet
from prequential.errors import ConfigError, MissingDependencyError

Tensor = torch.Tensor
Step = Callable[[torch.nn.Module, torch.optim.Optimizer, Tensor, Tensor], Any]


class TorchLearner:
    """Predicts runs of window / 2 symbols from the window that ends with them, and learns from each run afterwards.

    A step is one call of `optimiser` on the mean loss of `rows` windows: the newest one, and rows - 1 that end at random places
    of what has been read (replay). With steps = 2 there are two such steps for each run. On processors equal calls give equal
    results, so archives can be decoded; decoding takes as many calls of the module as there are bytes.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        window: int = 256,
        rows: int = 8,
        steps: int = 1,
        n_symbols: int = 256,
        seed: int = 0,
        forward: Callable[[torch.nn.Module, Tensor], Tensor] | None = None,
        step: Step | None = None,
        deterministic: bool | None = None,
    ) -> None:
        """window: columns of the module's input, at least 2. forward: how logits come from module and ids. step: a training step
        of your own, called with module, optimiser, inputs and targets (rows, columns) int64, instead of one on the mean
        cross-entropy. deterministic: whether to write an archive; by default on processors.
        """
        if window < 2 or rows < 1 or steps < 0:
            raise ConfigError("a TorchLearner needs window >= 2, rows >= 1 and steps >= 0")
        self.module, self.optimiser, self.n_symbols = module, optimiser, n_symbols
        self.window, self.rows, self.steps = window, rows, steps
        self.run_symbols = window // 2
        self._forward, self._step = forward or _logits_of, step
        self.device = next((p.device for p in module.parameters()), torch.device("cpu"))
        self.deterministic = self.device.type == "cpu" if deterministic is None else deterministic
        self._random = np.random.default_rng(seed)
        self._seen = np.zeros(1 << 16, np.uint8 if n_symbols <= 256 else np.int32)
        self._n_seen = 0

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> Tensor:
        """Log-probabilities (n, V) of the run. Before the first symbol, 0 stands for what is not there."""
        known = np.concatenate((context[-(self.window - len(symbols) + 1) :], symbols[:-1]))
        if len(known) < len(symbols):
            known = np.concatenate(([0], known))
        self.module.eval()
        with torch.no_grad():
            logits = self._logits(torch.from_numpy(known[None]).to(self.device))
        return log_softmax(logits[0, -len(symbols) :].double(), -1).cpu()

    def update(self, symbols: np.ndarray) -> None:
        """`steps` steps on windows that end with the run, and on others."""
        self._append(symbols)
        columns = min(self.window, self._n_seen - 1)
        if columns < 1:
            return
        self.module.train()
        for _ in range(self.steps):
            ends = self._random.integers(columns, self._n_seen, self.rows - 1, endpoint=True)
            places = np.concatenate(([self._n_seen], ends))[:, None] - columns + np.arange(columns)
            inputs, targets = (torch.from_numpy(self._seen[places - k].astype(np.int64)) for k in (1, 0))
            self._take_step(inputs.to(self.device), targets.to(self.device))

    def state_dict(self) -> dict[str, Any]:
        """Weights and the optimiser's state."""
        return {"module": self.module.state_dict(), "optimiser": self.optimiser.state_dict()}

    def __deepcopy__(self, memo: dict[int, Any]) -> "TorchLearner":
        """A copy whose optimiser works on the weights of its own module."""
        made = copy.copy(self)
        module = copy.deepcopy(self.module, memo)
        made.module, made.optimiser = module, _optimiser_for(self.optimiser, self.module, module)
        made._random, made._seen = copy.deepcopy(self._random), self._seen.copy()
        return made

    def _take_step(self, inputs: Tensor, targets: Tensor) -> None:
        if self._step:
            self._step(self.module, self.optimiser, inputs, targets)
            return
        loss = cross_entropy(self._logits(inputs).flatten(0, 1).float(), targets.flatten())
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()

    def _logits(self, ids: Tensor) -> Tensor:
        logits = self._forward(self.module, ids)
        if logits.dim() != 3 or logits.shape[1] != ids.shape[1]:
            found = f"{tuple(logits.shape)} for ids {tuple(ids.shape)}"
            raise ConfigError(f"the module gives {found}; give (rows, columns, V)")
        return logits

    def _append(self, symbols: np.ndarray) -> None:
        needed = self._n_seen + len(symbols)
        if needed > len(self._seen):
            self._seen = np.concatenate((self._seen, np.zeros(needed + len(self._seen), self._seen.dtype)))
        self._seen[self._n_seen : needed] = symbols
        self._n_seen = needed


def _logits_of(module: torch.nn.Module, ids: Tensor) -> Tensor:
    found = module(ids)
    logits: Tensor = found[0] if isinstance(found, Sequence) else getattr(found, "logits", found)
    return logits


def _optimiser_for(
    optimiser: torch.optim.Optimizer, old: torch.nn.Module, new: torch.nn.Module
) -> torch.optim.Optimizer:
    """An optimiser like the given one for the copy of its module. Raises ConfigError if it works on other weights."""
    copies = {id(a): b for a, b in zip(old.parameters(), new.parameters(), strict=True)}
    groups = optimiser.param_groups
    if any(id(p) not in copies for group in groups for p in group["params"]):
        foreign = "the optimiser has parameters that the module does not have"
        raise ConfigError(f"{foreign}: give a function that makes the learner")
    kind: Any = type(optimiser)
    copied = [{**group, "params": [copies[id(p)] for p in group["params"]]} for group in groups]
    made: torch.optim.Optimizer = kind(copied)
    made.load_state_dict(optimiser.state_dict())
    return made


class TransformersLearner(TorchLearner):
    """A causal model of transformers. All weights learn, or with `lora` only those of low-rank adapters (the peft package).

    It writes no archive: its symbols are ids.
    """

    def __init__(
        self, name: str, *, lr: float = 1e-4, lora: int = 0, rows: int = 1, seed: int = 0, **settings: Any
    ) -> None:
        """name: a folder of `save_pretrained` with its tokenizer, or a name on the hub. lr: of AdamW. lora: the rank of the
        adapters; 0: all weights learn. rows, seed, settings (window, steps): as of TorchLearner.
        """
        torch.manual_seed(seed)
        loaded = load_model(name)
        n_symbols = int(loaded.model.get_input_embeddings().num_embeddings)
        model = _with_lora(loaded.model, lora) if lora else loaded.model
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
        more = settings | {"forward": _logits_of_lm}
        super().__init__(model, optimiser, rows=rows, n_symbols=n_symbols, seed=seed, **more)
        self.tokenizer = loaded.tokenizer


def _logits_of_lm(module: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
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
