"""A torch.nn.Module over bytes or ids as a learner: anyone's model, optimiser and training step.

    model = MyGPT(...)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    prequential.evaluate("book1", learner=TorchLearner(model, optimiser, window=256))

The module maps ids (rows, columns) int64 to logits (rows, columns, V), as a tensor, as the first of a tuple or as `.logits`.
Column t predicts the next id. It must be causal; the evaluator checks that. nanoGPT gives the logits of all columns only if it is
given targets: forward=lambda model, ids: model(ids, ids)[0].
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, log_softmax

from prequential.adapters.hub import load_model
from prequential.adapters.text_tokenizer import tokenizer_of
from prequential.errors import ConfigError, MissingDependencyError
from prequential.learners.distributions import named_failures
from prequential.learners.protocol import MAX_RUN_SYMBOLS

Tensor = torch.Tensor
Step = Callable[[torch.nn.Module, torch.optim.Optimizer, Tensor, Tensor], Any]


class TorchLearner:
    """Predicts half a window of symbols from the window that ends with them, for each half of a run, and then learns the run.

    A step is one call of `optimiser` on the mean loss of some windows: the newest ones, which cover the run, and rows - 1 of
    what was read before (replay). With steps = 2 there are two such steps for each run. On processors equal calls give equal
    results, so archives of bytes can be decoded; decoding takes as many calls of the module as there are bytes.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        window: int = 256,
        rows: int = 8,
        steps: int = 1,
        run_symbols: int | None = None,
        tokenizer: Any = None,
        seed: int = 0,
        forward: Callable[[torch.nn.Module, Tensor], Tensor] | None = None,
        step: Step | None = None,
        deterministic: bool | None = None,
    ) -> None:
        """window: columns of the module's input, at least 2. run_symbols: by default half a window. tokenizer: for a module over
        ids, one as of `Tokenizer`, of transformers, tokenizers or tiktoken, or the path of a tokenizer.json. forward: how logits
        come from module and ids. step: a training step of your own, called with module, optimiser, inputs and targets (rows,
        columns) int64, instead of one on the mean cross-entropy. deterministic: whether to write an archive; by default on
        processors. Raises ConfigError if the module cannot read such a window.
        """
        if window < 2 or rows < 1 or steps < 0:
            raise ConfigError("a TorchLearner needs window >= 2, rows >= 1 and steps >= 0")
        own = set(map(id, module.parameters()))
        if any(id(p) not in own for group in optimiser.param_groups for p in group["params"]):
            raise ConfigError("the optimiser has parameters that the module does not have")
        self.module, self.optimiser = module, optimiser
        self.window, self.rows, self.steps = window, rows, steps
        self.run_symbols: int = min(window // 2, MAX_RUN_SYMBOLS) if run_symbols is None else run_symbols
        self.tokenizer: Any = None if tokenizer is None else tokenizer_of(tokenizer)
        self._forward, self._step = forward or _logits_of, step
        self.device: torch.device = next((p.device for p in module.parameters()), torch.device("cpu"))
        self.deterministic: bool = self.device.type == "cpu" if deterministic is None else deterministic
        self.n_symbols: int = self._checked_width()
        self._random = np.random.default_rng(seed)
        self._context = np.zeros(0, np.int64)  # all symbols before the run

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> Tensor:
        """Log-probabilities (n, V) of the run. Before the first symbol, 0 stands for what is not there."""
        exact = torch.float64 if self.n_symbols <= 256 else torch.float32
        return torch.cat([log_softmax(logits.to(exact), -1).cpu() for logits in self._run_logits(context, symbols)])

    def nll(self, context: np.ndarray, symbols: np.ndarray) -> Tensor:
        """The nats (n,) of the run's symbols."""
        nats, start = [], 0
        for logits in self._run_logits(context, symbols):
            targets = torch.from_numpy(symbols[start : start + len(logits)]).to(logits.device)
            nats.append(cross_entropy(logits.float(), targets, reduction="none"))
            start += len(logits)
        return torch.cat(nats)

    def update(self, symbols: np.ndarray) -> None:
        """`steps` steps on windows that cover the run, which was just predicted, and on others."""
        n_seen = len(self._context) + len(symbols)
        columns = min(self.window, n_seen - 1)
        if columns < 1:
            return
        newest = np.maximum(np.arange(n_seen, len(self._context), -columns), columns)
        self.module.train()
        for _ in range(self.steps):
            replayed = self._random.integers(columns, n_seen, self.rows - 1, endpoint=True)
            ends = np.concatenate((newest, replayed))
            places = ends[:, None] - columns + np.arange(columns)
            inputs, targets = (torch.from_numpy(self._symbols_at(places - k, symbols)) for k in (1, 0))
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            if self._step:
                self._step(self.module, self.optimiser, inputs, targets)
                continue
            loss = cross_entropy(self._logits(inputs).flatten(0, 1).float(), targets.flatten())
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """Weights, the optimiser's state, and that of the random numbers."""
        own = {"random": self._random.bit_generator.state}
        return {"module": self.module.state_dict(), "optimiser": self.optimiser.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a `state_dict` of an equal learner."""
        self.module.load_state_dict(state["module"])
        self.optimiser.load_state_dict(state["optimiser"])
        self._random.bit_generator.state = state["random"]

    def _logits(self, ids: Tensor) -> Tensor:
        logits = self._forward(self.module, ids)
        if logits.dim() != 3 or logits.shape[1] != ids.shape[1]:
            shapes = f"{tuple(logits.shape)} for ids {tuple(ids.shape)}"
            raise ConfigError(f"the module gives {shapes}; give (rows, columns, V)")
        return logits

    def _checked_width(self) -> int:
        """V, of the logits of a whole window. Raises ConfigError if the module cannot read one."""
        learns = self.module.training
        self.module.eval()
        what = f"the module cannot read a window of {self.window} symbols: give another window"
        with named_failures(what), torch.no_grad():
            width = self._logits(torch.zeros((1, self.window), dtype=torch.int64, device=self.device)).shape[-1]
        self.module.train(learns)
        return int(width)

    def _run_logits(self, context: np.ndarray, symbols: np.ndarray) -> Iterator[Tensor]:
        """Logits (n, V) of the run, part by part. Each half window of it is predicted at the end of a window."""
        self._context = context
        before = context[-self.window :] if len(context) else np.zeros(1, np.int64)
        stream, stride = np.concatenate((before, symbols[:-1])), max(1, self.window // 2)
        parts = []
        for start in range(0, len(symbols), stride):
            n = min(stride, len(symbols) - start)
            end = len(before) + start + n - 1
            parts.append((stream[max(0, end - self.window) : end], n))
        self.module.eval()
        first = 0
        while first < len(parts):  # as many alike as a step may have rows
            ids, n = parts[first]
            alike = [each for each, m in parts[first : first + self.rows] if (len(each), m) == (len(ids), n)]
            with torch.no_grad():
                yield self._logits(torch.from_numpy(np.stack(alike)).to(self.device))[:, -n:].flatten(0, 1)
            first += len(alike)

    def _symbols_at(self, places: np.ndarray, run: np.ndarray) -> np.ndarray:
        """The symbols at these places of what was read, of which the run is the end; 0 before the first."""
        n_before = len(self._context)
        symbols = np.where(places >= n_before, run[np.maximum(places - n_before, 0)], 0)
        known = (places >= 0) & (places < n_before)
        symbols[known] = self._context[places[known]]
        return symbols


def _logits_of(module: torch.nn.Module, ids: Tensor) -> Tensor:
    result = module(ids)
    logits: Tensor = result[0] if isinstance(result, Sequence) else getattr(result, "logits", result)
    return logits


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
        model = _with_lora(loaded.model, lora) if lora else loaded.model
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
        super().__init__(model, optimiser, rows=rows, seed=seed, tokenizer=loaded.tokenizer, **settings)


def _with_lora(model: Any, rank: int) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingDependencyError("lora needs the library peft: in a checkout, pip install '.[lora]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the two libraries tell each other
        return peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
