"""What `evaluate` costs beside the learner: a bare loop of predict and update, and `evaluate`, by turns in one process.

    python benchmarks/evaluator_cost.py [--cases a b c] [--turns 3]

prints one JSON line for each case: microseconds a symbol of the bare loop and of `evaluate` (medians), their ratio, and of
`evaluate` outside the calls of the learner (`own_us`: checks, digests, coding, tables). The learner is a GPT of one layer. All
times are of one thread of the processor, so other programs disturb them little.

    a   bytes, runs of 128, coded into an archive       b   the same, runs of 8,192
    c   ids of 50,257 kinds, runs of 128, 2 bytes each  d   bytes, runs of 128, no archive: only the nats are needed
"""

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np
import torch
from prequential_corpora.bundled import sample_path
from torch.nn.functional import cross_entropy, log_softmax

import prequential

COLUMNS, WIDTH = 128, 64
CASES = {
    "a": (256, 128, 200_000), "b": (256, 8192, 200_000), "c": (50_257, 128, 40_000), "d": (256, 128, 200_000),
}  # V, run, bytes  # fmt: skip


class GPT(torch.nn.Module):
    def __init__(self, n_symbols: int) -> None:
        super().__init__()
        self.ids, self.places = torch.nn.Embedding(n_symbols, WIDTH), torch.nn.Embedding(COLUMNS, WIDTH)
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.head = torch.nn.Linear(WIDTH, n_symbols)
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(COLUMNS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        hidden = self.layer(self.ids(x) + self.places.weight[:n], src_mask=self.mask[:n, :n], is_causal=True)
        return self.head(hidden)


class Pairs:
    """A tokenizer: two bytes are an id."""

    def encode(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, ">u2").astype(np.int64)

    def decode(self, ids: Any) -> bytes:
        return np.asarray(ids).astype(">u2").tobytes()


class Learner:
    """Reads a run as rows of COLUMNS symbols. The time of all its calls is in `inside_s`."""

    inside_s = 0.0

    def __init__(self, n_symbols: int, run_symbols: int, is_coded: bool) -> None:
        torch.manual_seed(0)
        self.n_symbols, self.run_symbols, self.deterministic = n_symbols, run_symbols, is_coded
        self.module = GPT(n_symbols)
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=1e-3)
        if n_symbols > 256:
            self.tokenizer = Pairs()

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        start_s = time.process_time()
        with torch.no_grad():
            rows = log_softmax(self._logits(symbols), -1)
        Learner.inside_s += time.process_time() - start_s
        return rows

    def nll(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        start_s = time.process_time()
        with torch.no_grad():
            nats = cross_entropy(self._logits(symbols), torch.from_numpy(symbols), reduction="none")
        Learner.inside_s += time.process_time() - start_s
        return nats

    def update(self, symbols: np.ndarray) -> None:
        start_s = time.process_time()
        self.optimiser.zero_grad()
        cross_entropy(self._logits(symbols), torch.from_numpy(symbols)).backward()
        self.optimiser.step()
        Learner.inside_s += time.process_time() - start_s

    def state_dict(self) -> dict[str, Any]:
        return {"module": self.module.state_dict(), "optimiser": self.optimiser.state_dict()}

    def _logits(self, symbols: np.ndarray) -> torch.Tensor:
        n_rows = -(-len(symbols) // COLUMNS)
        rows = np.zeros(n_rows * COLUMNS, np.int64)
        rows[1 : len(symbols)] = symbols[:-1]
        logits = self.module(torch.from_numpy(rows.reshape(n_rows, COLUMNS)))
        return logits.flatten(0, 1)[: len(symbols)]


def bare_loop(symbols: np.ndarray, n_symbols: int, run: int, is_coded: bool) -> float:
    """Nats: a run is predicted, its cost is added, and it is learned."""
    learner, nats = Learner(n_symbols, run, is_coded), 0.0
    for start in range(0, len(symbols), run):
        part = symbols[start : start + run]
        if learner.deterministic:
            nats -= float(learner.predict(symbols[:start], part)[np.arange(len(part)), part].sum())
        else:
            nats += float(learner.nll(symbols[:start], part).sum())
        learner.update(part)
    return nats


def measure(name: str, n_turns: int) -> dict[str, Any]:
    (n_symbols, run, n_bytes), is_coded = CASES[name], name in "ab"
    data = (sample_path("christmas_carol").read_bytes() * 2)[:n_bytes]
    symbols = Pairs().encode(data) if n_symbols > 256 else np.frombuffer(data, np.uint8).astype(np.int64)

    def factory() -> Learner:
        return Learner(n_symbols, run, is_coded)

    prequential.evaluate(data[: 4 * run], learner=factory, baselines=())  # compiles kernels
    seconds: dict[str, list[float]] = {"bare": [], "evaluate": [], "own": []}
    for _ in range(n_turns):
        start_s = time.process_time()
        nats = bare_loop(symbols, n_symbols, run, is_coded)
        seconds["bare"].append(time.process_time() - start_s)
        Learner.inside_s, start_s = 0.0, time.process_time()
        found = prequential.evaluate(data, learner=factory, baselines=())
        seconds["evaluate"].append(time.process_time() - start_s)
        seconds["own"].append(seconds["evaluate"][-1] - Learner.inside_s)
    us = {f"{key}_us": round(1e6 * median(each) / len(symbols), 2) for key, each in seconds.items()}
    ratio = median(b / a for a, b in zip(seconds["bare"], seconds["evaluate"], strict=True))
    bits = {"bare_bits": nats / np.log(2), "code_bits": found.ledger.code_bits}
    return {"case": name, "n_symbols": len(symbols), "V": n_symbols, "run": run, **us, "ratio": round(ratio, 3), **bits}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for each in args.cases:
        print(json.dumps(measure(each, args.turns)), flush=True)
