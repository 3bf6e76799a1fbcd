"""Whether an implementation of the exact primitives gives the bits of the definition, `plain`."""

from types import ModuleType

import torch
from torch.utils._pytree import tree_map

from prequential.exact import plain

Tensor = torch.Tensor


def assert_same_bits(ops: ModuleType, name: str, *inputs: object, **named: object) -> None:
    """Calls a primitive of `plain` and of `ops` on copies; compares their results and everything that they changed in place.

    Kernels of a device run there, if there is one.
    """

    def call(ops: ModuleType) -> list[Tensor]:
        device = "cuda" if "device" in ops.__name__ and torch.cuda.is_available() else "cpu"
        copies, by_name = tree_map(lambda x: x.clone().to(device) if isinstance(x, Tensor) else x, (inputs, named))
        result = getattr(ops, name)(*copies, **by_name)
        results = list(result) if isinstance(result, tuple) else [] if result is None else [result]
        return [x.cpu() for x in results + [x for x in copies if isinstance(x, Tensor)]]

    pairs = list(zip(call(plain), call(ops), strict=True))
    for i, (a, b) in enumerate(pairs):
        assert a.dtype == b.dtype and a.shape == b.shape, (name, i)
        bits_a, bits_b = (x.contiguous().view(torch.int32) if x.dtype == torch.float32 else x for x in (a, b))
        assert torch.equal(bits_a, bits_b), (name, i)


class Draw:
    """Tensors of the kinds that the primitives take, from one seed; every other one is a strided view."""

    def __init__(self, seed: int) -> None:
        self._generator, self._n_drawn = torch.Generator().manual_seed(seed), 0

    def _strided(self, x: Tensor) -> Tensor:
        self._n_drawn += 1
        return torch.stack((x, x), -1)[..., 0] if self._n_drawn % 2 else x

    def reals(self, *shape: int) -> Tensor:
        spread = torch.rand(shape[0], *[1] * (len(shape) - 1), generator=self._generator)
        return self._strided(torch.randn(shape, generator=self._generator) * spread)

    def factors(self, *shape: int) -> Tensor:
        return self._strided(torch.rand(shape, generator=self._generator) + 0.001)

    def integers(self, limit: int, *shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return self._strided(torch.randint(-limit, limit + 1, shape, generator=self._generator).to(dtype))

    def symbols(self, n_symbols: int, *shape: int) -> Tensor:
        return self._strided(torch.randint(0, n_symbols, shape, generator=self._generator))


def check_rows(ops: ModuleType, n: int, c: int, seed: int) -> None:
    d = Draw(seed)
    assert_same_bits(ops, "quantise_rows", d.reals(n, c))
    assert_same_bits(ops, "quantise_rows", d.reals(n, c), d.factors(c))
    assert_same_bits(ops, "quantise_rows_finely", d.reals(n, c), d.factors(c))
    assert_same_bits(ops, "column_peaks", d.reals(n, c), d.factors(n))
    assert_same_bits(ops, "round_columns", d.reals(n, c), d.factors(c) + 4, d.factors(n))
    assert_same_bits(ops, "normalise_rows", d.reals(n, c))
    levels = d.integers(127, n, c, dtype=torch.int8)
    out = d.reals(n, c).contiguous()
    assert_same_bits(ops, "normalise_rows_backward", d.reals(n, c), levels, d.factors(n), d.factors(n), out)
    assert_same_bits(ops, "nesterov_", d.reals(n, c).contiguous(), d.reals(n, c), 0.8)
    acc = d.integers(2**28, n, c)
    assert_same_bits(ops, "dequantise", acc, d.factors(n), d.factors(c))
    assert_same_bits(ops, "dequantise", acc, None, d.factors(c))
    assert_same_bits(ops, "dequantise", levels, d.factors(n), None)
    assert_same_bits(ops, "dequantise", acc, d.factors(n), d.factors(c), d.reals(n, c))
    assert_same_bits(ops, "dequantise", acc, d.factors(n), d.factors(c), d.reals(n, c), alpha=-4.775, beta=2.0315)
    squares = d.reals(n).clamp_min(0)
    assert_same_bits(ops, "adagrad_change", acc, d.factors(1) * 1e-9, squares, 0.16, 4096.0, 65534.0)
    assert_same_bits(ops, "adagrad_change", acc // 2**14, d.factors(1) * 1e-19, squares * 0, 0.16, 4096.0, 65534.0)
    assert_same_bits(ops, "squared_relu", acc, d.factors(n), d.factors(c))
    assert_same_bits(ops, "squared_relu_backward", acc, d.factors(n), d.factors(n, c))
    assert_same_bits(ops, "frequencies", d.reals(n, max(c, 2)) * 5)
    assert_same_bits(ops, "embedding_sums", d.reals(n, c), d.symbols(50, n, 2), 50, d.factors(1) + 4)
    state = [x.contiguous() for x in (d.reals(n, c), d.reals(n, c), d.reals(n, c), d.factors(n, c))]
    assert_same_bits(ops, "adam_", *state, 0.003, 0.9, 0.99)


def check_attention(ops: ModuleType, b: int, t: int, h: int, k: int, window: int, n_valid: int, seed: int) -> None:
    d, j = Draw(seed), window - 1 + t
    cos, sin = d.reals(t, k // 2).clamp(-1, 1), d.reals(t, k // 2).clamp(-1, 1)
    assert_same_bits(ops, "attention_inputs", d.reals(b * t, 3 * h * k).contiguous(), cos, sin, (b, t, h))
    scores = d.integers(200000, b, h, t, j).float()
    weights = (scores, d.factors(b, h, t) * 2e-4, d.factors(b, h, j), d.factors(b, h, j))
    mask = (window - 1, window - 1 - n_valid, window)
    assert_same_bits(ops, "attention_weights", *weights, mask)
    e, inverse, _, _ = plain.attention_weights(*weights, mask)
    sums = [d.integers(2**20, b, h, t, k).float() for _ in range(3)]
    assert_same_bits(ops, "attention_output", sums[0], d.factors(b, h, t))
    assert_same_bits(ops, "attention_backward_values", d.reals(b * t, h * k).contiguous(), inverse, h)
    folded = (d.factors(b, h, t), d.factors(b, h, j), e, inverse, d.factors(b, h, t), d.factors(b, h, j))
    assert_same_bits(ops, "attention_backward_scores", scores, *folded)
    scales = (d.factors(b, h, t), d.factors(b, h, t), d.factors(b, h, 1, k))
    saved = tuple(
        x for _ in range(2) for x in (d.integers(127, b, h, t, k).float(), d.factors(b, h, t), d.factors(b, h, t))
    )
    assert_same_bits(ops, "attention_inputs_backward", tuple(sums), scales, saved, cos, sin)
