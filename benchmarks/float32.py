"""The cost of exact arithmetic: compares the exact GPT with the same GPT in ordinary float32 torch, on the same bytes.

    python benchmarks/float32.py FILE [--limit N] [--level 5] [--threads 2] [--repeat R] [--openmp]

Both are learners of the project's loop, at a preset without mixer. They share everything except the arithmetic: initial weights,
segments, the rows of every step, rotary angles, step sizes, and the division of work among threads. The exact learner encodes,
with integers (docs/EXACT.md). The float32 learner is what a torch user would write: autograd, scaled_dot_product_attention,
matrix products of floats. It rounds nothing to levels and encodes nothing; its bits are -log2 of the softmax.

As in the exact learner, a step runs in parallel with the reading of a segment, and halves of its rows run in parallel on pool
threads. With --openmp the float32 learner reads and steps in turn, each with torch's own threads. If any other program runs on
the machine, the barriers of these threads make that several times slower. CPU s is then the fairer of the two times.

The learners take turns in this process, each after a warm-up. The fastest of R runs of each counts. Times exclude building the
learner and compiling its kernels.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from prequential_codecs.bit_coder import ENCODE, FOLLOW, BitCoder
from prequential_corpora.sources import open_corpus
from torch.nn.functional import cross_entropy, embedding, pad, relu, rms_norm, scaled_dot_product_attention

from prequential.errors import PrequentialError
from prequential.exact import matmul, plain
from prequential.exact.backend import NEWTON_SCHULZ_STEPS, Backend
from prequential.exact.optim import NEWTON_SCHULZ
from prequential.exact.pool import Pool
from prequential.model.config import Config, GPTConfig
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.weights import SCORE_SCALE, rotary_phases
from prequential.model.learner import OnlineLearner
from prequential.model.presets import DEFAULT_PRESET, preset
from prequential.model.schedule import blocks
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.records.table import format_table

Tensor = torch.Tensor
# (layer, queries, keys, values): all (R, H, T, K), as is the result
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]

COLUMNS = ("learner", "bits/byte", "of exact", "seconds", "CPU s", "kB/s", "time of exact")
WARM_UP_BYTES = 3000


def norm(x: Tensor) -> Tensor:
    """x divided by the root mean square of its last axis."""
    return rms_norm(x, x.shape[-1:], eps=1e-12)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x with the pairs (i, i + K/2) of its last axis rotated by angles of the given cos and sin, (T, K/2)."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def orthogonalise(g: Tensor) -> Tensor:
    """Muon's Newton-Schulz steps on a matrix (R, C)."""
    if g.shape[0] > g.shape[1]:
        return orthogonalise(g.mT).mT
    a, b, c = NEWTON_SCHULZ
    x = g / g.norm().clamp_min(1e-30)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Float32GPT:
    """The GPT in float32. A step replaces the weights and writes none in place. Letters as in model/gpt/weights.py."""

    def __init__(self, config: GPTConfig, weights: dict[str, Tensor], pool: Pool) -> None:
        """weights: (C_in, C_out) each, by the names of `GPT.state`."""
        self.config, self._weights, self._pool = config, weights, pool
        self._score_scale = SCORE_SCALE * 64.0 * config.n_heads / config.width  # as `Weights.score_scale`
        self._hidden = [name for name in weights if name not in ("embedding", "head")]
        self._momentum = {name: torch.zeros_like(weights[name]) for name in self._hidden}
        self._adam = {name: (torch.zeros_like(weights[name]),) * 2 for name in ("embedding", "head")}
        self._n_updates = self._start = self._n_time = 0
        no_keys = torch.zeros(config.n_heads, config.window - 1, config.width // config.n_heads)
        self._carried = [(no_keys, no_keys)] * config.n_layers  # keys and values of the last W - 1 columns

    def _logits(self, weights: dict[str, Tensor], recent: Tensor, first: int, attend: Attend) -> Tensor:
        """Logits (R, T, V) of the symbols after columns first .. first + T - 1, whose last symbols are `recent` (R, T, E)."""
        cos, sin = rotary_phases(self.config, first, recent.shape[1])
        h = sum(map(embedding, recent.unbind(-1), weights["embedding"]))
        for i in range(self.config.n_layers):
            qkv = (norm(h) @ weights[f"{i}.qkv"]).unflatten(-1, (3, self.config.n_heads, -1)).permute(2, 0, 3, 1, 4)
            q, k = norm(rotate(qkv[:2], cos, sin))
            h = h + attend(i, q, k, qkv[2]).transpose(1, 2).flatten(2) @ weights[f"{i}.out"]
            h = h + relu(norm(h) @ weights[f"{i}.up"]).square() @ weights[f"{i}.down"]
        return norm(h) @ weights["head"]

    # ---- reading

    def begin(self, n_columns: int) -> None:
        """Opens a segment, which will be read with the present weights."""
        self._start, self._n_time = self._start + self._n_time, n_columns
        self._snapshot = dict(self._weights)

    def end(self) -> None:
        """Closes the segment. There is nothing to commit."""

    def wait_for_update(self, update: "Future[None]") -> None:
        update.result()

    def read(self, recent: Tensor) -> Tensor:
        """Logits (T, V) of the symbols after the segment's columns, whose last symbols are `recent` (T, E)."""
        return self._logits(self._snapshot, recent[None], self._start, self._attend_stream)[0]

    def _attend_stream(self, i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention in blocks of W queries, each with the 2W - 1 keys that its queries may see. The first are carried keys."""
        w, n = self.config.window, self._n_time
        n_blocks = -(-n // w)
        spare = n_blocks * w - n
        k, v = (torch.cat(pair, 1) for pair in zip(self._carried[i], (k[0], v[0]), strict=True))  # (H, W - 1 + T, K)
        self._carried[i] = (k[:, n:], v[:, n:])
        k, v = (pad(x, (0, 0, 0, spare)).unfold(1, 2 * w - 1, w).permute(1, 0, 3, 2) for x in (k, v))
        q = pad(q[0], (0, 0, 0, spare)).unflatten(1, (n_blocks, w)).transpose(0, 1)
        query, key = torch.arange(w)[:, None], torch.arange(2 * w - 1)
        column = self._start + torch.arange(0, n_blocks * w, w)[:, None, None, None] + key - (w - 1)
        seen = (key >= query) & (key < query + w) & (column >= 0)
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self._score_scale)
        return y.transpose(0, 1).flatten(1, 2)[None, :, :n]

    # ---- learning

    def update(self, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        """One step on independent rows (R, T, E), and on the symbols after their columns, (R, T). places: not used."""
        self._n_updates += 1
        c = self.config
        factor = min(1.0, self._n_updates / c.warmup_updates) / math.sqrt(1.0 + self._n_updates / c.decay_updates)
        leaves = {name: w.detach().requires_grad_() for name, w in self._weights.items()}
        gradients: list[dict[str, Tensor]] = []

        def work(piece: slice) -> None:
            logits = self._logits(leaves, inputs[piece], 0, self._attend_rows)
            loss = cross_entropy(logits.flatten(0, 1), targets[piece].flatten(), reduction="sum")
            gradients.append(dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)))

        self._pool.map(work, self._pool.pieces(len(inputs)))
        for name in leaves:
            self._pool.start(partial(self._update_parameter, name, [g[name] for g in gradients], factor))
        self._pool.finish()

    def _attend_rows(self, i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n, scale = q.shape[2], self._score_scale
        if n <= self.config.window:
            return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        seen = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - self.config.window)
        return scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)

    def _update_parameter(self, name: str, parts: list[Tensor], factor: float) -> None:
        """One step of the named parameter. Its gradient is the sum of the parts."""
        c, g = self.config, sum(parts[1:], parts[0])
        if name in self._hidden:
            self._momentum[name] = self._momentum[name].lerp(g, 1.0 - c.momentum)
            direction = g.lerp(self._momentum[name], c.momentum)  # Nesterov momentum
            matrices = direction.chunk(3, 1) if name.endswith("qkv") else [direction]
            step_size = c.matrix_step * factor * math.sqrt(max(1.0, matrices[0].shape[1] / matrices[0].shape[0]))
            step = torch.cat([orthogonalise(m) for m in matrices], 1)
            self._weights[name] = self._weights[name].sub(step, alpha=step_size)
        else:  # Adam without bias correction; torch.optim.Adam always has it
            mean, square = self._adam[name]
            self._adam[name] = mean, square = mean.lerp(g, 1.0 - c.beta1), square.lerp(g.square(), 1.0 - c.beta2)
            self._weights[name] = self._weights[name].addcdiv(mean, square.sqrt() + 1e-8, value=-c.vector_step * factor)


class Float32Learner(OnlineLearner):
    """The project's learner, with its history, rows and threads. A float32 GPT replaces the exact one."""

    def __init__(self, config: Config, n_threads: int, *, openmp: bool = False) -> None:
        pool = Pool(1 if openmp else n_threads)
        state = GPT(config.gpt, config.seed, Backend(plain, matmul.choose("cpu", None), pool)).state()
        hidden = [f"{i}.{name}" for i in range(config.gpt.n_layers) for name in ("qkv", "out", "up", "down")]
        gpt = Float32GPT(config.gpt, {name: state[name] for name in ("embedding", *hidden, "head")}, pool)
        super().__init__(config, gpt, step_thread=pool.n_threads > 1)
        if openmp:
            torch.set_num_threads(n_threads)

    def code(self, symbols: np.ndarray, coder: BitCoder) -> np.ndarray:
        """The ideal code lengths of the segment's symbols (n,) in bits, (n,). Encodes nothing."""
        logits = self.gpt.read(torch.from_numpy(self.inputs(symbols)))
        nats = cross_entropy(logits, torch.from_numpy(symbols), reduction="none")
        self.history.append(symbols)
        return nats.double().numpy() / math.log(2.0)


class Cost(NamedTuple):
    """The cost of one run: wall time and processor time in seconds, and ideal bits."""

    wall_s: float
    cpu_s: float
    code_bits: float


def measure(learner: OnlineLearner, data: np.ndarray) -> Cost:
    """The cost of reading data (n,) uint8. The exact learner also encodes it."""
    wall_s, cpu_s, code_bits = time.perf_counter(), time.process_time(), 0.0
    for block in blocks(len(data), learner.config.schedule):
        coder = BitCoder(FOLLOW if isinstance(learner, Float32Learner) else ENCODE)
        code_bits += sum(float(bits.sum()) for _, bits in run(learner, coder, block, data[block].copy()))
        coder.payload()
    return Cost(time.perf_counter() - wall_s, time.process_time() - cpu_s, code_bits)


def main() -> int:
    """Runs both learners in turn and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", metavar="FILE", help="as `prequential evaluate` names it")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N bytes")
    parser.add_argument("--level", type=int, default=DEFAULT_PRESET, metavar="N", help="preset (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of each learner (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=1, metavar="R", help="runs of each (default: %(default)s)")
    parser.add_argument("--openmp", action="store_true", help="float32: torch's own threads")
    args = parser.parse_args()
    try:
        config = preset(args.level, pure=True)
        # the table of contexts does not depend on precision
        config = replace(config, gpt=replace(config.gpt, contexts=()))
        with open_corpus(args.file) as corpus:
            data = np.array(corpus.bytes()[: args.limit])
    except PrequentialError as error:
        parser.error(str(error))
    learners: dict[str, Callable[[], OnlineLearner]] = {
        "exact": lambda: Runtime(threads=args.threads).learner(config),
        "float32": lambda: Float32Learner(config, args.threads, openmp=args.openmp),
    }
    for learner in learners.values():
        measure(learner(), data[:WARM_UP_BYTES])
    rounds = [{name: measure(learner(), data) for name, learner in learners.items()} for _ in range(args.repeat)]
    best = {name: min(costs[name] for costs in rounds) for name in learners}
    rows = [
        [
            name,
            f"{cost.code_bits / len(data):.4f}",
            f"{cost.code_bits / best['exact'].code_bits:.4f}",
            f"{cost.wall_s:.2f}",
            f"{cost.cpu_s:.2f}",
            f"{len(data) / cost.wall_s / 1e3:.2f}",
            f"{cost.wall_s / best['exact'].wall_s:.2f}",
        ]
        for name, cost in best.items()
    ]
    print(format_table(COLUMNS, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
