"""The GPT, forward and backward, in exact arithmetic.

Pre-norm residual layers: h += attention(rmsnorm(h)); h += mlp(rmsnorm(h)); logits = head(rmsnorm(h)). No gains or biases,
rotary positions, normalised queries and keys, squared ReLU, zero-initialised output projections, untied head.

`forward` may be called on any run of columns of a segment (all at once, one by one, or anything between) and gives the same
bits: every result depends on its own row and on the keys before it, all sums are of integers. Keys and values of the last
`window - 1` columns are carried from segment to segment. `update` back-propagates the whole segment and takes one step:
Muon on the hidden matrices, Adam on the embedding and the head. Weights are rounded to int8 once per update.

Letters: B streams, T columns, D width, H heads, K = D/H, V symbols, W window; J = W - 1 + T slots for keys. N = B*T.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch

from prequential.exact.matmul import Matmul
from prequential.exact.optim import orthogonalise
from prequential.exact.pool import Pool
from prequential.exact.random import uniform
from prequential.exact.tables import ROTARY_PERIOD, rotary_table, rotary_wave_numbers
from prequential.model.config import GPTConfig

Tensor = torch.Tensor

ROWS_PER_THREAD = 128  # fewer rows are not worth a second thread
# Normalised q . k reaches K. The prototype's optimum at K = 64, scaled so that the peak stays 0.18 * 64.
SCORE_SCALE = 0.18


class Linear:
    """A weight matrix (C_in, C_out): float32 master, and int8 levels with a scale per output, renewed once per update."""

    def __init__(self, weight: Tensor, ops: ModuleType, matmul: Matmul) -> None:
        self.weight, self._ops, self._matmul = weight, ops, matmul
        self.quantise()

    def quantise(self) -> None:
        self.levels, self.scale = self._ops.quantise_columns(self.weight)
        self._transposed = self.levels.t()

    def sums(self, x: Tensor) -> Tensor:
        """(N, C_in) int8 -> (N, C_out) int32; times the row scale and `self.scale` it is the product."""
        return self._matmul(x, self.levels)

    def input_gradient_sums(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient at the output (N, C_out) -> integer sums (N, C_in) and their row scale, the scales folded in first."""
        levels, row_scale = self._ops.quantise_rows(g, column_factor=self.scale)
        return self._matmul(levels, self._transposed), row_scale

    def weight_gradient(self, x: Tensor, x_scale: Tensor, g: Tensor) -> Tensor:
        """Gradient at the weight, (C_in, C_out) float32, from the int8 input x with its row scale."""
        levels, column_scale = self._ops.quantise_columns(g, row_factor=x_scale)
        return self._ops.dequantise(self._matmul(x.t(), levels), None, column_scale)


class GPT:
    """See the module's text. All tensors live on one device; nothing here uses autograd."""

    def __init__(
        self, config: GPTConfig, n_symbols: int, seed: int, ops: ModuleType, matmul: Matmul, pool: Pool
    ) -> None:
        self.config, self.n_symbols, self._ops, self._matmul, self._pool = config, n_symbols, ops, matmul, pool
        d, m = config.width, config.mlp_factor * config.width
        half_width = math.sqrt(3.0 / d) * 0.5  # standard deviation 0.5 / sqrt(D)

        def linear(name: str, n_in: int, n_out: int, half_width: float) -> Linear:
            return Linear(uniform(seed, name, (n_in, n_out), half_width), ops, matmul)

        self.embedding = uniform(seed, "embedding", (n_symbols, d), 1.0)
        self.layers = [
            {
                "qkv": linear(f"{i}.qkv", d, 3 * d, half_width),
                "out": linear(f"{i}.out", d, d, 0.0),
                "up": linear(f"{i}.up", d, m, half_width),
                "down": linear(f"{i}.down", m, d, 0.0),
            }
            for i in range(config.n_layers)
        ]
        self.head = linear("head", d, n_symbols, 0.0)
        self._momentum = {
            f"{i}.{n}": torch.zeros_like(w.weight) for i, ws in enumerate(self.layers) for n, w in ws.items()
        }
        self._adam = {
            name: (torch.zeros_like(p), torch.zeros_like(p))
            for name, p in (("embedding", self.embedding), ("head", self.head.weight))
        }
        self._n_updates = 0
        self._n_columns = 0  # columns of all segments before this one: the rotary position of the first column
        self._n_carried = 0  # valid keys among the W - 1 carried slots
        self._turn_cos, self._turn_sin = rotary_table()
        self._waves = rotary_wave_numbers(d // config.n_heads // 2)
        self._score_scale = SCORE_SCALE * 64.0 / (d // config.n_heads)
        self._carried: list[dict[str, Tensor]] = []
        self._n_streams = self._n_time = 0  # of the open segment

    # ---- streams and segments

    def set_streams(self, source: list[int]) -> None:
        """New stream i continues old stream source[i]: its carried keys and values. The first call starts cold."""
        index = torch.tensor(source, dtype=torch.int64)
        if not self._carried:
            shape = (len(source), self.config.n_heads, self.config.window - 1)
            width = self.config.width // self.config.n_heads
            self._carried = [
                {
                    "k": torch.zeros(*shape, width, dtype=torch.int8),
                    "v": torch.zeros(*shape, width, dtype=torch.int8),
                    "k_r": torch.zeros(shape),
                    "v_scale": torch.zeros(shape),
                }
                for _ in self.layers
            ]
        else:
            self._carried = [{name: t[index] for name, t in layer.items()} for layer in self._carried]

    def begin(self, n_columns: int) -> None:
        """Opens a segment of n_columns columns: room for its keys behind the carried ones."""
        n_streams, n_heads = self._carried[0]["k"].shape[:2]
        if (n_streams, n_columns) != (self._n_streams, self._n_time):
            self._n_streams, self._n_time = n_streams, n_columns
            self._saved = self._room_for_activations()
        self._room = []
        for layer in self._carried:
            room = {
                name: torch.cat((t, t.new_zeros(n_streams, n_heads, n_columns, *t.shape[3:])), 2)
                for name, t in layer.items()
            }
            self._room.append(room)
        positions = torch.arange(self._n_columns, self._n_columns + n_columns)[:, None]
        phase = (positions * self._waves) % ROTARY_PERIOD
        self._cos, self._sin = self._turn_cos[phase], self._turn_sin[phase]  # (T, K/2)
        self._column: Any = None  # ops.Column of the open segment, made when a single column is first asked for

    # ---- forward

    def forward(self, symbols: Tensor, first: int) -> Tensor:
        """Logits (B, t, V) float32 of what follows `symbols` (B, t) int64, which stand at columns first .. first + t - 1."""
        run = slice(first, first + symbols.shape[1])
        self._saved["symbols"][:, run] = symbols
        if symbols.shape[1] == 1 and self._ops.Column:
            return self._forward_column(symbols[:, 0], first)[:, None]
        logits = torch.empty(*symbols.shape, self.n_symbols)

        def work(streams: slice) -> None:
            logits[streams] = self._forward(symbols[streams], streams, run)

        together = symbols.numel() < ROWS_PER_THREAD
        self._pool.map(work, [slice(0, self._n_streams)] if together else self._pool.pieces(self._n_streams))
        return logits

    def _forward(self, symbols: Tensor, streams: slice, run: slice) -> Tensor:
        """Logits of some of the streams, which no other stream can influence: symbols (b, t) to (b, t, V), b * t = N."""
        ops = self._ops

        def keep(name: str, *values: Tensor) -> tuple[Tensor, ...]:
            for k, value in enumerate(values):
                self._saved[f"{name}/{k}"][streams, run] = value.view(*symbols.shape, *value.shape[1:])
            return values

        h = self.embedding[symbols.reshape(-1)]  # (N, D)
        for i, layer in enumerate(self.layers):
            x, r, _ = keep(f"{i}.qkv", *ops.normalise_rows(h))
            qkv = ops.dequantise(layer["qkv"].sums(x), r, layer["qkv"].scale)  # (N, 3D)
            x, s = keep(f"{i}.out", *ops.quantise_rows(self._attention(i, qkv, streams, run)))
            h = ops.dequantise(layer["out"].sums(x), s, layer["out"].scale, base=h)
            x, r, _ = keep(f"{i}.up", *ops.normalise_rows(h))
            x, s, _ = keep(f"{i}.down", *ops.squared_relu(layer["up"].sums(x), r, layer["up"].scale))
            h = ops.dequantise(layer["down"].sums(x), s, layer["down"].scale, base=h)
        x, r, _ = keep("head", *ops.normalise_rows(h))
        return ops.dequantise(self.head.sums(x), r, self.head.scale).view(*symbols.shape, -1)

    def _attention(self, i: int, qkv: Tensor, streams: slice, run: slice) -> Tensor:
        """Attention's output rows (N, D) for a run of columns; their keys and values join the room."""
        ops, window = self._ops, self.config.window
        room = {name: t[streams] for name, t in self._room[i].items()}
        saved = {name: self._saved[f"{i}.{name}"][streams] for name in ("q", "q_r", "q_s", "k_s", "inverse_sum", "e")}
        n_columns, last_memory = run.stop - run.start, window - 1
        first_valid = last_memory - self._n_carried
        shape = (len(room["k"]), n_columns, self.config.n_heads)
        q, q_r, q_s, k, k_r, k_s, v, v_scale = ops.attention_inputs(qkv, self._cos[run], self._sin[run], shape)
        for name, value in (("k", k), ("k_r", k_r), ("v", v), ("v_scale", v_scale)):
            room[name][:, :, last_memory + run.start : last_memory + run.stop] = value
        seen = slice(run.start, last_memory + run.stop)  # the union of these queries' windows; J = W - 1 + t
        scores = self._matmul.batched(q, room["k"][:, :, seen].float().transpose(-1, -2))  # (b, H, t, J)
        e, inverse_sum, levels, scale = ops.attention_weights(
            scores, q_r * self._score_scale, room["k_r"][:, :, seen], room["v_scale"][:, :, seen],
            first_query=last_memory, first_valid=first_valid - run.start, window=window,
        )  # fmt: skip
        acc = self._matmul.batched(levels, room["v"][:, :, seen].float())  # (b, H, t, K)
        for name, value in (("q", q), ("q_r", q_r), ("q_s", q_s), ("k_s", k_s), ("inverse_sum", inverse_sum)):
            saved[name][:, :, run] = value
        saved["e"][:, :, run, seen] = e
        return ops.attention_output(acc, scale * inverse_sum)

    def _forward_column(self, symbols: Tensor, column: int) -> Tensor:
        """Logits (B, V) of one column of all streams, symbols (B,): the decoder's way, in compiled kernels of its own."""
        if self._column is None:
            self._column = self._ops.Column(
                self.layers, self.head, self._room, self._saved, self._cos, self._sin,
                self.config.window - 1 - self._n_carried, self.config.window, self._score_scale, self._matmul,
            )  # fmt: skip
        return self._column.logits(self.embedding[symbols], column)

    # ---- what the backward pass needs, gathered from any split of the segment

    def _room_for_activations(self) -> dict[str, Tensor]:
        """Tensors (B, T, ..) of rows and (B, H, T, ..) of attention that `forward` fills in, run by run."""
        c, lead = self.config, (self._n_streams, self._n_time)
        d, m, attention = c.width, c.mlp_factor * c.width, (self._n_streams, c.n_heads, self._n_time)
        saved = {"symbols": torch.zeros(lead, dtype=torch.int64)}

        def rows(name: str, width: int, n_factors: int) -> None:  # int8 integers and float32 factors of each row
            saved[f"{name}/0"] = torch.zeros(*lead, width, dtype=torch.int8)
            saved.update({f"{name}/{k}": torch.zeros(lead) for k in range(1, n_factors + 1)})

        for i in range(c.n_layers):
            rows(f"{i}.qkv", d, 2)
            rows(f"{i}.out", d, 1)
            rows(f"{i}.up", d, 2)
            rows(f"{i}.down", m, 1)
            saved[f"{i}.down/2"] = torch.zeros(*lead, m)
            saved[f"{i}.q"] = torch.zeros(*attention, d // c.n_heads)
            saved.update({f"{i}.{name}": torch.zeros(attention) for name in ("q_r", "q_s", "k_s", "inverse_sum")})
            saved[f"{i}.e"] = torch.zeros(*attention, c.window - 1 + self._n_time)
        rows("head", d, 2)
        return saved

    def _rows(self, name: str, n: int) -> list[Tensor]:
        return [self._saved[f"{name}/{k}"].flatten(0, 1) for k in range(n)]

    # ---- backward and update

    def update(self, g: Tensor) -> None:
        """One optimiser step from g (N, V) float32, the gradient in nats at the segment's logits; then the segment closes.

        The gradient travels down the layers; each matrix learns, beside it, as soon as its own gradient is known.
        """
        self._n_updates += 1
        c = self.config
        factor = min(1.0, self._n_updates / c.warmup_updates) / math.sqrt(1.0 + self._n_updates / c.decay_updates)
        for name, gradient in self._backward(g):
            self._pool.start(partial(self._learn, name, gradient, factor))
        self._pool.finish()
        self._close()

    def _learn(self, name: str, gradient: Callable[[], Tensor], factor: float) -> None:
        """One step of the named parameter: Adam for embedding and head, Muon for the hidden matrices."""
        if name in self._adam:
            weight = self.embedding if name == "embedding" else self.head.weight
            c = self.config
            self._ops.adam_(weight, gradient(), *self._adam[name], c.vector_step * factor, c.beta1, c.beta2)
            if name == "head":
                self.head.quantise()
            return
        linear = self._linear(name)
        self._muon_step(linear.weight, gradient(), self._momentum[name], 3 if name.endswith("qkv") else 1, factor)
        linear.quantise()

    def _linear(self, name: str) -> Linear:
        layer, matrix = name.split(".")
        return self.layers[int(layer)][matrix]

    def _hidden(self) -> list[tuple[str, Linear]]:
        return [(f"{i}.{name}", linear) for i, layer in enumerate(self.layers) for name, linear in layer.items()]

    def _muon_step(self, weight: Tensor, gradient: Tensor, momentum: Tensor, n_parts: int, factor: float) -> None:
        """Nesterov momentum, orthogonalised; a matrix of n_parts side by side (query, key, value) is taken part by part."""
        direction = self._ops.nesterov_(momentum, gradient, self.config.momentum)
        for w, g in zip(weight.chunk(n_parts, 1), direction.chunk(n_parts, 1), strict=True):
            shape_factor = math.sqrt(max(1.0, g.shape[1] / g.shape[0]))
            w.sub_(
                orthogonalise(g.contiguous(), self._ops, self._matmul)
                * (self.config.matrix_step * shape_factor * factor)
            )

    def _backward(self, g: Tensor) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        """From the gradient rows (N, V) at the logits down to the embedding: each parameter's name and how to get its gradient.

        A parameter is named once its old value has been used for the last time; what its gradient needs never changes later.
        """
        ops = self._ops
        norm = self._rows("head", 3)
        dh = self._through_norm(self.head, g, norm, torch.zeros(len(g), self.config.width))
        yield "head", partial(self.head.weight_gradient, norm[0], norm[1], g)
        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            x, scale, a = self._rows(f"{i}.down", 3)
            dy = ops.squared_relu_backward(*layer["down"].input_gradient_sums(dh), a)
            yield f"{i}.down", partial(layer["down"].weight_gradient, x, scale, dh)
            norm = self._rows(f"{i}.up", 3)
            dh = self._through_norm(layer["up"], dy, norm, dh)
            yield f"{i}.up", partial(layer["up"].weight_gradient, norm[0], norm[1], dy)
            x, scale = self._rows(f"{i}.out", 2)
            acc, row_scale = layer["out"].input_gradient_sums(dh)
            yield f"{i}.out", partial(layer["out"].weight_gradient, x, scale, dh)
            dqkv = self._attention_backward(i, ops.dequantise(acc, row_scale, None))
            norm = self._rows(f"{i}.qkv", 3)
            dh = self._through_norm(layer["qkv"], dqkv, norm, dh)
            yield f"{i}.qkv", partial(layer["qkv"].weight_gradient, norm[0], norm[1], dqkv)
        yield "embedding", partial(ops.embedding_gradient, dh, self._saved["symbols"].reshape(-1), self.n_symbols)

    def _through_norm(self, linear: Linear, g: Tensor, norm: Sequence[Tensor], dh: Tensor) -> Tensor:
        """dh plus the gradient that reaches the residual stream through `linear` of the normalised rows."""
        acc, row_scale = linear.input_gradient_sums(g)
        return self._ops.normalise_rows_backward(self._ops.dequantise(acc, row_scale, None), *norm, base=dh)

    def _attention_backward(self, i: int, g: Tensor) -> Tensor:
        """Gradient (N, 3D) at queries, keys and values from that at attention's output rows (N, D); memory gets none."""
        ops, room, n_carried = self._ops, self._room[i], self.config.window - 1
        q, q_r, q_s, k_s, inverse_sum, e = (
            self._saved[f"{i}.{n}"] for n in ("q", "q_r", "q_s", "k_s", "inverse_sum", "e")
        )
        k, k_r = room["k"][:, :, n_carried:], room["k_r"][:, :, n_carried:]
        by_query, g_scale, by_column, dv_scale = ops.attention_backward_values(g, inverse_sum, self.config.n_heads)
        dv = self._matmul.batched(e[..., n_carried:].transpose(-1, -2), by_column)
        # 1023 * 127 * K < 2**24 needs K <= 129
        products = self._matmul.batched(by_query, room["v"].float().transpose(-1, -2))  # (B, H, T, J)
        ds_rows, row_scale, ds_columns, column_scale = ops.attention_backward_scores(
            products, g_scale, room["v_scale"], e, inverse_sum, q_r, room["k_r"], self._n_time
        )
        dq = self._matmul.batched(ds_rows, room["k"].float())
        dk = self._matmul.batched(ds_columns.transpose(-1, -2), q)
        return ops.attention_inputs_backward(
            dq, dk, dv, row_scale * self._score_scale, column_scale * self._score_scale, dv_scale,
            (q, q_r, q_s, k, k_r, k_s), self._cos, self._sin,
        )  # fmt: skip

    def _close(self) -> None:
        """The last W - 1 keys and values are carried on; everything else of the segment is dropped."""
        n_carried = self.config.window - 1
        self._carried = [{name: t[:, :, -n_carried:].clone() for name, t in layer.items()} for layer in self._room]
        self._n_carried = min(n_carried, self._n_carried + self._n_time)
        self._n_columns += self._n_time

    def state(self) -> dict[str, Tensor]:
        """Every tensor that later probabilities depend on, by name: what a digest or a checkpoint covers."""
        tensors = {"embedding": self.embedding, "head": self.head.weight}
        tensors |= {name: linear.weight for name, linear in self._hidden()}
        tensors |= {f"momentum.{name}": m for name, m in self._momentum.items()}
        for name, (mean, square) in self._adam.items():
            tensors |= {f"adam.mean.{name}": mean, f"adam.square.{name}": square}
        for i, layer in enumerate(self._carried):
            tensors |= {f"carried.{i}.{name}": t for name, t in layer.items()}
        tensors["counters"] = torch.tensor([self._n_updates, self._n_columns, self._n_carried])
        return tensors
