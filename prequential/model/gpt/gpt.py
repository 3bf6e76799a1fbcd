"""The GPT in exact arithmetic: it reads the stream segment by segment (reader.py) and learns from rows of earlier symbols.

The rows of a step share no keys and values with each other or with the stream. A step updates the hidden matrices with Muon,
embedding and head with Adam, and the context table with Adagrad, and rounds weights to int8 once. Reading and learning may run in
two threads, because a segment is read with a snapshot of the weights. Letters as in weights.py.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch

from prequential.errors import ConfigError
from prequential.exact.backend import Arithmetic, Primitives, muon_step_
from prequential.exact.tables import HOST
from prequential.model.config import GPTConfig
from prequential.model.gpt.column import ColumnDecoder
from prequential.model.gpt.context_table import MOST_SHIFTS, ContextGradient
from prequential.model.gpt.reader import Reader
from prequential.model.gpt.weights import (
    SavedActivations,
    Weights,
    embedding_gradient,
    joined,
    matrix_gradient,
    phases_of_rows,
)

Tensor = torch.Tensor
Gradient = Callable[[], Tensor] | ContextGradient
Phases = tuple[Tensor, Tensor]  # cos and sin (rotary_phases)

MAX_MAGNITUDE = 1e6  # of the floats in a checkpoint: nothing overflows below it
MAX_SQUARE = 1e30  # of sums of squares; those of contexts are sums over all steps, which have no smaller bound
# Prefixes of names in a state: of sums of squares and scales, which are never negative.
NOT_NEGATIVE = ("contexts.squares", "adam.square.", "carried.k_r", "carried.v_scale")


def n_blocks(name: str) -> int:
    """How many blocks of columns of a hidden matrix are orthogonalised separately: query, key and value."""
    return 3 if name.endswith("qkv") else 1


class GPT:
    """A GPT on one device.

    For each segment one thread calls `begin`, then `forward` or `frequencies`. Another may run `update`. `end` follows both.
    """

    def __init__(self, config: GPTConfig, seed: int, backend: Arithmetic, device: torch.device = HOST) -> None:
        self.config, self.backend = config, backend
        self._weights = Weights.initial(config, seed, backend, device)
        layers = enumerate(self._weights.layers)
        self._hidden_matrices = {f"{i}.{name}": linear for i, layer in layers for name, linear in layer.items()}
        self._matrices = {"head": self._weights.head, **self._hidden_matrices}
        self._momentum = {name: torch.zeros_like(linear.weight) for name, linear in self._hidden_matrices.items()}
        self._adam = {
            name: (torch.zeros_like(p), torch.zeros_like(p))
            for name, p in (("embedding", self._weights.embedding), ("head", self._weights.head.weight))
        }
        self._n_updates = 0
        self._head_change: Tensor = torch.zeros(())  # of the last step
        self.update_size: float | None = None  # for reports: OnlineLearner.update_size
        self._reader = Reader(config)

    @property
    def _ops(self) -> Primitives:
        return self.backend.primitives

    # ---- reading

    def begin(self, n_columns: int) -> None:
        """Opens a segment of n_columns columns, to be read with the current weights. Do not call it during an `update`."""
        self._reader.begin(self._weights.snapshot(), n_columns)

    def forward(self, recent: Tensor, first: int) -> Tensor:
        """Logits (t, V) float32 of the symbols after the columns first .. first + t - 1.

        recent: the last symbols at each column, (t, C) int64, the newest first. Columns must be read in order, each once. The
        bits do not depend on how many columns one call reads, or on an `update` that runs at the same time.
        """
        return self._reader.forward(recent, first)

    def frequencies(self, recent: Tensor, first: int) -> Tensor:
        """The predicted distributions, (t, V) int32: each at least 1, with a sum of 2**24 per row. Arguments as for `forward`."""
        return self._ops.frequencies(self.forward(recent, first))

    def column_decoder(self) -> ColumnDecoder | None:
        """The open segment for a decoder that reads it symbol by symbol in compiled kernels; None without compiled kernels."""
        return self._reader.column_decoder() if self._reader.compiled else None

    def end(self) -> None:
        """Closes the segment and writes the staged updates of the context table. An `update` must have returned."""
        self._weights.contexts.commit()

    # ---- learning

    def update(self, inputs: Tensor, targets: Tensor, places: Tensor) -> None:
        """One optimiser step on R independent rows of T columns, with R * T <= 8192 and T <= 512.

        inputs (R, T, C) int64: the last symbols at each column, as in `forward`; targets (R, T) int64: the next symbols; places
        (R, T) int64: the place of each column in the memory of the context table, if it replays one whose contexts are kept
        there, or ~place, if it is new and they will be. Places of new columns are distinct, unless their inputs are equal. Raises
        ConfigError if the weights are no longer finite.
        """
        self._n_updates += 1
        c, n = self.config, self._n_updates
        factor = min(1.0, n / c.warmup_updates) / math.sqrt(1.0 + n / c.decay_updates)  # a linear warm-up, and a decay
        rows = self._weights.rows_of_tables(inputs.flatten(0, 1), places.flatten())
        self._apply_step(rows.unflatten(0, inputs.shape[:2]), targets, factor)
        self.update_size = float(self._head_change)  # waits for the device, so it is the last operation
        if not math.isfinite(self.update_size):  # then the weights are not finite, either
            raise ConfigError("the GPT has diverged: its weights are no longer finite; take smaller steps")

    def _apply_step(self, inputs: Tensor, targets: Tensor, factor: float | Tensor) -> None:
        """Updates all parameters. inputs (R, T, ..): `Weights.rows_of_tables`. factor: of all steps but the context table's."""
        gradients = list(self._gradients(inputs, targets))
        self.backend.pool.map(lambda each: self._update_parameter(*each, factor), gradients)

    def _gradients(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[str, Gradient]]:
        """The name of each parameter, and what computes its gradient. The pool computes pieces of the rows in parallel."""
        phases = phases_of_rows(self.config, inputs.shape[1], inputs.device)
        pieces = self.backend.pool.pieces(len(inputs))
        parts: list[dict[str, tuple[Tensor, ...]]] = [{} for _ in pieces]

        def work(i: int) -> None:
            gradient, saved = self._forward_rows(inputs[pieces[i]], targets[pieces[i]], phases)
            parts[i] = self._backward(gradient, saved, phases)

        self.backend.pool.map(work, range(len(pieces)))
        for name in parts[0]:
            each = [part[name] for part in parts]
            if name != "embedding":
                yield name, partial(matrix_gradient, self._matrices[name], each)
                continue
            dh, rows, n = joined([g for (g,) in each]), inputs.flatten(0, 1), self.config.n_embeddings
            yield name, partial(embedding_gradient, self._ops, dh, rows[:, :n])
            if self.config.contexts:
                yield "contexts", self._weights.contexts.gradient(dh, rows[:, n:])

    def _forward_rows(self, inputs: Tensor, targets: Tensor, phases: Phases) -> tuple[Tensor, SavedActivations]:
        """The gradient (N, V) at the logits, in nats, and the saved activations."""
        saved: SavedActivations = {}
        attend = partial(self._attend, saved, phases, (*inputs.shape[:2], self.config.n_heads))
        logits = self._weights.logits(inputs.flatten(0, 1), attend, saved)
        return self._ops.loss_gradient(self._ops.frequencies(logits), targets.reshape(-1)), saved

    def _attend(
        self, saved: SavedActivations, phases: Phases, shape: tuple[int, int, int], i: int, qkv: Tensor
    ) -> Tensor:
        """The output (N, D) of attention in layer i for complete rows. shape = (R, T, H). Queries see only keys of their row."""
        if self._ops.COMPILED:
            scale, window = self._weights.score_scale, self.config.window
            out, saved[f"{i}.attention"] = self._ops.attention(qkv, *phases, shape, scale, window)
            return out
        q, q_r, q_s, k, k_r, k_s, v, v_scale = self._ops.attention_inputs(qkv, *phases, shape)
        scores = self.backend.matmul.batched(q, k.transpose(-1, -2))  # (R, H, T, T)
        e, inverse_sum, levels, scale = self._ops.attention_weights(
            scores, q_r * self._weights.score_scale, k_r, v_scale, mask=(0, 0, self.config.window)
        )
        saved[f"{i}.attention"] = (q, q_r, q_s, k, k_r, k_s, v, v_scale, e, inverse_sum)
        return self._ops.attention_output(self.backend.matmul.batched(levels, v), scale * inverse_sum)

    def _backward(self, g: Tensor, saved: SavedActivations, phases: Phases) -> dict[str, tuple[Tensor, ...]]:
        """From g (N, V) at the logits, for each matrix a part of `matrix_gradient`; "embedding": dh, (N, D)."""
        ops, head, parts = self._ops, self._weights.head, {}
        norm = saved["head"]
        dh = self._through_norm(head.fine_input_gradient_sums(g), norm, g.new_zeros(len(g), self.config.width))
        parts["head"] = (norm[0], norm[1], g)
        for i, layer in reversed(list(enumerate(self._weights.layers))):
            x, scale, a = saved[f"{i}.down"]
            dy = ops.squared_relu_backward(*layer["down"].input_gradient_sums(dh), a)
            parts[f"{i}.down"] = (x, scale, dh)
            norm = saved[f"{i}.up"]
            dh = self._through_norm(layer["up"].input_gradient_sums(dy), norm, dh)
            parts[f"{i}.up"] = (norm[0], norm[1], dy)
            x, scale = saved[f"{i}.out"]
            acc, row_scale = layer["out"].input_gradient_sums(dh)
            parts[f"{i}.out"] = (x, scale, dh)
            dqkv = self._attention_backward(ops.dequantise(acc, row_scale, None), saved[f"{i}.attention"], phases)
            norm = saved[f"{i}.qkv"]
            dh = self._through_norm(layer["qkv"].input_gradient_sums(dqkv), norm, dh)
            parts[f"{i}.qkv"] = (norm[0], norm[1], dqkv)
        return parts | {"embedding": (dh,)}

    def _through_norm(self, sums: tuple[Tensor, Tensor], norm: Sequence[Tensor], dh: Tensor) -> Tensor:
        """dh plus the gradient at the input of an RMS norm. sums: integer sums and row scales of the gradient at its output."""
        q, r, s = norm
        return self._ops.normalise_rows_backward(self._ops.dequantise(*sums, None), q, r, s, base=dh)

    def _attention_backward(self, g: Tensor, saved: Sequence[Tensor], phases: Phases) -> Tensor:
        """The gradient (N, 3D) at queries, keys and values, from g (N, D) at the output of attention."""
        ops, batched, score_scale = self._ops, self.backend.matmul.batched, self._weights.score_scale
        if ops.COMPILED:
            return ops.attention_backward(g, saved, *phases, score_scale, self.config.window)
        q, q_r, q_s, k, k_r, k_s, v, v_scale, e, inverse_sum = saved
        by_query, g_scale, by_column, dv_scale = ops.attention_backward_values(g, inverse_sum, self.config.n_heads)
        dv = batched(e.transpose(-1, -2), by_column)  # 255 * 127 * T < 2**24 needs T <= 518
        products = batched(by_query, v.transpose(-1, -2))  # (R, H, T, T); 1023 * 127 * K < 2**24 needs K <= 129
        ds_rows, row_scale, ds_columns, column_scale = ops.attention_backward_scores(
            products, g_scale, v_scale, e, inverse_sum, q_r, k_r
        )
        dq = batched(ds_rows, k)
        dk = batched(ds_columns.transpose(-1, -2), q)
        scales = row_scale * score_scale, column_scale * score_scale, dv_scale
        return ops.attention_inputs_backward((dq, dk, dv), scales, (q, q_r, q_s, k, k_r, k_s), *phases)

    def _update_parameter(self, name: str, gradient: Gradient, factor: float | Tensor) -> None:
        """One step of one parameter by Muon, Adam or Adagrad. factor: of the step size, a number or a tensor () float64."""
        if isinstance(gradient, ContextGradient):
            self._weights.contexts.stage_update(gradient)
            return
        if name in self._hidden_matrices:
            linear, g = self._hidden_matrices[name], self._momentum_direction(name, gradient())
            muon_step_(linear.weight, g, n_blocks(name), self._muon_step_size(name) * float(factor), self.backend)
            linear.quantise()
            return
        c, weights = self.config, self._weights
        weight = weights.embedding if name == "embedding" else weights.head.weight
        before = weight.clone() if name == "head" else None
        self._ops.adam_(weight, gradient(), *self._adam[name], c.vector_step * factor, c.beta1, c.beta2)
        if before is not None:
            weights.head.quantise()
            self._head_change = (weight - before).norm() / weight.norm().clamp_min(1e-30)

    def _momentum_direction(self, name: str, gradient: Tensor) -> Tensor:
        """The direction of Muon's step before it is orthogonalised: Nesterov momentum, which it advances."""
        return self._ops.nesterov_(self._momentum[name], gradient, self.config.momentum)

    def _muon_step_size(self, name: str) -> float:
        """The step size of the blocks of a matrix, without warm-up and decay. Wide ones take larger steps."""
        n_rows, n_columns = self._hidden_matrices[name].weight.shape
        return self.config.matrix_step * math.sqrt(max(1.0, n_columns / n_blocks(name) / n_rows))

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Copies the `state` of another GPT of this configuration. Raises ValueError for values that no GPT can have."""
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                continue
            low, high = (0.0, MAX_SQUARE) if name.startswith(NOT_NEGATIVE) else (-MAX_MAGNITUDE, MAX_MAGNITUDE)
            if not bool(((tensor >= low) & (tensor <= high)).all()):  # also if it is NaN
                raise ValueError(f"gpt.{name} has a value out of range, or one that is not a number")
        if not all(0 <= n < 1 << 48 for n in tensors["counters"].tolist()):
            raise ValueError("gpt.counters are out of range")
        shifts = tensors.get("contexts.shifts", torch.zeros(0))
        if not bool(((shifts >= 0) & (shifts <= MOST_SHIFTS)).all()):
            raise ValueError("gpt.contexts.shifts are out of range")
        for name, tensor in GPT.state(self).items():
            if name != "counters":
                tensor.copy_(tensors[name])
        self._n_updates, n_columns = tensors["counters"].tolist()
        self._reader.resume(n_columns)
        self.quantise()

    def quantise(self) -> None:
        """Rounds the master copy of every matrix to its levels."""
        for linear in self._matrices.values():
            linear.quantise()

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on, by name. Call it after `end`."""
        tensors = {"embedding": self._weights.embedding, "head": self._weights.head.weight}
        tensors |= {name: linear.weight for name, linear in self._hidden_matrices.items()}
        tensors |= {f"momentum.{name}": m for name, m in self._momentum.items()}
        for name, (mean, square) in self._adam.items():
            tensors |= {f"adam.mean.{name}": mean, f"adam.square.{name}": square}
        tensors |= self._weights.contexts.state()
        tensors |= {f"carried.{name}": t for name, t in self._reader.carried_cache().items()}
        tensors["counters"] = torch.tensor([self._n_updates, self._reader.n_columns])
        return tensors
