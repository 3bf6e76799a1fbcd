"""What `evaluate` costs beside the learner: a bare loop of predict and update, and `evaluate`, by turns in one process.

    python benchmarks/evaluator_cost.py [--device cuda] [--cases a b c] [--turns 3]

prints one JSON line for each case: microseconds a symbol of the bare loop and of `evaluate` (medians), their ratio, and of
`evaluate` outside the calls of the learner (`own_us`: checks, digests, coding, tables). The learner is a GPT of one layer; all
times are of one thread of the processor, so other programs disturb them little. With --device cuda it is a GPT of 10 M weights,
under autocast in bfloat16, and times are wall times; each call of the learner waits for the device, in both loops.

    a   bytes, runs of 128, coded into an archive       b   the same, runs of 8,192
    c   ids of 50,257 kinds, runs of 128, 2 bytes each  d   bytes, runs of 128, no archive: only the nats are needed
                                                        e   the same, runs of 8,192
"""

import argparse
import json
import time
from contextlib import nullcontext
from statistics import median
from typing import Any

import numpy as np
import torch
from prequential_corpora.sources import sample_path
from torch.nn.functional import cross_entropy, log_softmax

import prequential

COLUMNS = 128
WIDTHS = {"cpu": (64, 1), "cuda": (384, 6)}  # width, layers
CASES = {
    "a": (256, 128, 200_000), "b": (256, 8192, 200_000), "c": (50_257, 128, 40_000), "d": (256, 128, 200_000),
    "e": (256, 8192, 200_000),
}  # V, run, bytes  # fmt: skip
BYTES_ON_CUDA = {128: 100_000, 8192: 2_000_000}  # by run


class GPT(torch.nn.Module):
    def __init__(self, n_symbols: int, width: int, n_layers: int) -> None:
        super().__init__()
        self.ids, self.places = torch.nn.Embedding(n_symbols, width), torch.nn.Embedding(COLUMNS, width)
        layer = torch.nn.TransformerEncoderLayer(width, width // 32, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, n_symbols)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(COLUMNS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        hidden = self.ids(x) + self.places.weight[:n]
        return self.head(self.layers(hidden, mask=self.mask[:n, :n], is_causal=True))


class Pairs:
    """A tokenizer: two bytes are an id."""

    def encode(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, ">u2").astype(np.int64)

    def decode(self, ids: Any) -> bytes:
        return np.asarray(ids).astype(">u2").tobytes()


class Learner:
    """Reads a run as rows of COLUMNS symbols. The time of all its calls is in `inside_s`."""

    inside_s = 0.0

    def __init__(self, n_symbols: int, run_symbols: int, is_coded: bool, device: str) -> None:
        torch.manual_seed(0)
        self.n_symbols, self.run_symbols, self.deterministic, self.device = n_symbols, run_symbols, is_coded, device
        self.module = GPT(n_symbols, *WIDTHS[device]).to(device)
        self.optimiser = torch.optim.AdamW(self.module.parameters(), lr=1e-3)
        if n_symbols > 256:
            self.tokenizer = Pairs()

    def predict(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        start_s = clock_s(self.device)
        with torch.no_grad():
            rows = log_softmax(self._logits(symbols), -1)
        Learner.inside_s += clock_s(self.device) - start_s
        return rows

    def nll(self, context: np.ndarray, symbols: np.ndarray) -> torch.Tensor:
        start_s = clock_s(self.device)
        with torch.no_grad():
            nats = cross_entropy(self._logits(symbols), self._tensor(symbols), reduction="none")
        Learner.inside_s += clock_s(self.device) - start_s
        return nats

    def update(self, symbols: np.ndarray) -> None:
        start_s = clock_s(self.device)
        self.optimiser.zero_grad()
        cross_entropy(self._logits(symbols), self._tensor(symbols)).backward()
        self.optimiser.step()
        Learner.inside_s += clock_s(self.device) - start_s

    def state_dict(self) -> dict[str, Any]:
        return {"module": self.module.state_dict(), "optimiser": self.optimiser.state_dict()}

    def _tensor(self, symbols: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(symbols).to(self.device)

    def _logits(self, symbols: np.ndarray) -> torch.Tensor:
        n_rows = -(-len(symbols) // COLUMNS)
        rows = np.zeros(n_rows * COLUMNS, np.int64)
        rows[1 : len(symbols)] = symbols[:-1]
        with torch.autocast("cuda", torch.bfloat16) if self.device == "cuda" else nullcontext():
            logits = self.module(self._tensor(rows.reshape(n_rows, COLUMNS)))
        return logits.flatten(0, 1)[: len(symbols)].float()


def clock_s(device: str) -> float:
    """Processor time; wall time on a GPU, once it has finished."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def bare_loop(symbols: np.ndarray, learner: Learner) -> float:
    """Nats: a run is predicted, its cost is added, and it is learned."""
    nats = 0.0
    for start in range(0, len(symbols), learner.run_symbols):
        part = symbols[start : start + learner.run_symbols]
        if learner.deterministic:
            nats -= float(learner.predict(symbols[:start], part)[np.arange(len(part)), part].sum())
        else:
            nats += float(learner.nll(symbols[:start], part).sum())
        learner.update(part)
    return nats


def measure(name: str, n_turns: int, device: str) -> dict[str, Any]:
    (n_symbols, run, n_bytes), is_coded = CASES[name], name in "ab"
    n_bytes = n_bytes if device == "cpu" else BYTES_ON_CUDA[run]
    data = (sample_path("christmas_carol").read_bytes() * 20)[:n_bytes]
    symbols = Pairs().encode(data) if n_symbols > 256 else np.frombuffer(data, np.uint8).astype(np.int64)

    def factory() -> Learner:
        return Learner(n_symbols, run, is_coded, device)

    prequential.evaluate(data[: 4 * run], learner=factory, baselines=())  # compiles kernels
    seconds: dict[str, list[float]] = {"bare": [], "evaluate": [], "own": []}
    for _ in range(n_turns):
        start_s = clock_s(device)
        nats = bare_loop(symbols, factory())
        seconds["bare"].append(clock_s(device) - start_s)
        Learner.inside_s, start_s = 0.0, clock_s(device)
        found = prequential.evaluate(data, learner=factory, baselines=())
        seconds["evaluate"].append(clock_s(device) - start_s)
        seconds["own"].append(seconds["evaluate"][-1] - Learner.inside_s)
    us = {f"{key}_us": round(1e6 * median(each) / len(symbols), 2) for key, each in seconds.items()}
    ratio = median(b / a for a, b in zip(seconds["bare"], seconds["evaluate"], strict=True))
    bits = {"bare_bits": nats / np.log(2), "code_bits": found.code_bits}
    return {"case": name, "n_symbols": len(symbols), "V": n_symbols, "run": run, **us, "ratio": round(ratio, 3), **bits}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=list(WIDTHS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for each in args.cases:
        print(json.dumps(measure(each, args.turns, args.device)), flush=True)
