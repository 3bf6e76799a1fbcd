"""The GPT: any split of a segment gives the same bits, predictions depend only on the past, and gradients are right."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prequential.exact import fused, plain
from prequential.exact.arrays import digest
from prequential.exact.backend import Arithmetic
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model.config import GPTConfig
from prequential.model.gpt import reader
from prequential.model.gpt.context_table import UNITS
from prequential.model.gpt.gpt import GPT
from prequential.model.gpt.weights import rotary_phases

CONFIG = GPTConfig(
    n_layers=2, width=32, n_heads=2, mlp_factor=2, n_embeddings=2, contexts=("2", "word"), context_bits=8,
    memory_bits=13, window=7, warmup_updates=1,
)  # fmt: skip
N_COLUMNS, N_ROWS, ROW_LENGTH, N_SYMBOLS = 20, 3, 10, 11
KERNELS = pytest.mark.parametrize("ops", [plain, fused], ids=["plain", "fused"])


def make_gpt(ops=plain, config=CONFIG, n_threads=1, backend="float64"):
    return GPT(config, seed=1, backend=Arithmetic(ops, Matmul(backend), Pool(n_threads)))


def drawn(seed, *shape):
    return torch.randint(N_SYMBOLS, shape, generator=torch.Generator().manual_seed(seed))


def drawn_symbols(seed, *shape):
    """Inputs: the last symbols of each column. They need not come from one text."""
    return drawn(seed, *(shape or (N_COLUMNS,)), CONFIG.n_inputs)


def drawn_rows(seed, shape=(N_ROWS, ROW_LENGTH)):
    """Inputs, targets and places. All rows are new."""
    places = ~torch.arange(shape[0] * shape[1]).view(shape)
    return drawn_symbols(1000 + seed, *shape), drawn(2000 + seed, *shape), places


def read(gpt, symbols, cuts=()):
    gpt.end()
    gpt.begin(len(symbols))
    edges = [0, *sorted(cuts), len(symbols)]
    return torch.cat([gpt.forward(symbols[a:b], a) for a, b in pairwise(edges)])


def trained(gpt, n_updates=3):
    """The GPT after a few steps, so that no projection is still zero."""
    for i in range(n_updates):
        gpt.update(*drawn_rows(i))
        gpt.end()
    return gpt


def assert_same_state(a, b):
    a.end()
    b.end()
    for name, tensor in a.state().items():
        assert torch.equal(tensor, b.state()[name]), name
    assert digest(a.state()) == digest(b.state())


# ---- reading


@KERNELS
@given(cuts=st.lists(st.sets(st.integers(1, N_COLUMNS - 1)), min_size=3, max_size=3), block=st.integers(1, N_COLUMNS))
@pytest.mark.first_quick
def test_any_split_of_a_segment_gives_the_same_logits_and_the_same_state(ops, cuts, block):
    whole, split = make_gpt(ops), make_gpt(ops)
    for i, cut in enumerate(cuts):
        with pytest.MonkeyPatch.context() as patch:
            expected = read(whole, drawn_symbols(i))
            patch.setattr(reader, "COLUMNS_AT_ONCE", block)
            assert torch.equal(expected, read(split, drawn_symbols(i), cut))
        whole.update(*drawn_rows(i))
        split.update(*drawn_rows(i))
        assert_same_state(whole, split)


@pytest.mark.parametrize(
    ("width", "n_heads", "window"), [(260, 5, 40), (256, 4, 40), (48, 2, 150), (160, 2, 40), (32, 16, 90)]
)
@pytest.mark.first_quick
def test_reading_column_by_column_equals_the_segment_at_sizes_that_fill_a_product_or_do_not(width, n_heads, window):
    config = GPTConfig(
        n_layers=1, width=width, n_heads=n_heads, mlp_factor=3, n_embeddings=2, window=window, warmup_updates=1
    )
    gpts = [trained(make_gpt(ops, config)) for ops in (plain, fused)]
    for i in range(3):
        by_column = read(gpts[1], drawn_symbols(i), range(1, N_COLUMNS))
        assert torch.equal(read(gpts[0], drawn_symbols(i)), by_column)
    assert_same_state(*gpts)


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_threads_read_a_segment_as_one_thread_does(n_threads):
    alone, several = trained(make_gpt(fused)), trained(make_gpt(fused))
    several._reader.pool = Pool(n_threads)
    symbols = drawn_symbols(5, 3 * N_COLUMNS)
    for cuts in (), (N_COLUMNS - 1, N_COLUMNS):
        assert torch.equal(read(alone, symbols, cuts), read(several, symbols, cuts))
    assert_same_state(alone, several)


@KERNELS
@given(cuts=st.sets(st.integers(1, 3 * N_COLUMNS - 1)))
@pytest.mark.first_quick
def test_a_stream_read_in_segments_of_any_size_is_read_as_one(ops, cuts):
    """With constant weights, a segment needs only the carried keys and values of the segments before it."""
    whole, parts = trained(make_gpt(ops)), trained(make_gpt(ops))
    symbols = drawn_symbols(5, 3 * N_COLUMNS)
    edges = [0, *sorted(cuts), len(symbols)]
    expected = read(whole, symbols)
    assert torch.equal(expected, torch.cat([read(parts, symbols[a:b]) for a, b in pairwise(edges)]))
    assert_same_state(whole, parts)


def test_logits_depend_on_carried_keys_exactly_as_far_back_as_the_window_reaches():
    """With one layer, column 0 of a segment sees the last window - 1 columns of the one before it."""
    config = GPTConfig(n_layers=1, width=32, n_heads=2, mlp_factor=2, n_embeddings=2, window=7, warmup_updates=1)

    def first_logits(changed_column):
        gpt = trained(make_gpt(config=config))
        symbols = drawn_symbols(7)
        if changed_column is not None:
            symbols[changed_column] = (symbols[changed_column] + 1) % N_SYMBOLS
        read(gpt, symbols)
        return read(gpt, drawn_symbols(8))[0]

    unchanged = first_logits(None)
    assert not torch.equal(unchanged, first_logits(N_COLUMNS - (config.window - 1)))
    assert torch.equal(unchanged, first_logits(N_COLUMNS - config.window))


# ---- reading and learning


@KERNELS
@given(before=st.integers(0, N_COLUMNS - 1), step=st.integers(1, N_COLUMNS))
@pytest.mark.first_quick
def test_an_update_in_the_middle_of_a_segment_does_not_change_how_it_is_read(ops, before, step):
    still, learning = trained(make_gpt(ops)), trained(make_gpt(ops))
    symbols = drawn_symbols(4)
    expected = read(still, symbols)
    still.update(*drawn_rows(9))
    learning.begin(len(symbols))
    logits = []
    for first in range(0, N_COLUMNS, step):
        if first <= before < first + step:
            learning.update(*drawn_rows(9))
        logits.append(learning.forward(symbols[first : first + step], first))
    assert torch.equal(expected, torch.cat(logits))
    assert_same_state(still, learning)
    assert torch.equal(read(still, symbols), read(learning, symbols))  # both now with the weights after the step
    assert not torch.equal(expected, read(learning, symbols))


# ---- learning


def test_a_row_is_learned_as_it_would_be_read_at_the_start_of_a_stream():
    """The gradient of a row follows from the logits that a new stream with the same symbols gets."""
    inputs, targets, places = drawn_rows(3)
    gpt = trained(make_gpt(fused))
    rows = gpt._weights.rows_of_tables(inputs[0], places[0])[None]
    gradient, _ = gpt._forward_rows(rows, targets[:1], rotary_phases(CONFIG, 0, ROW_LENGTH))
    logits = read(gpt, inputs[0])
    assert torch.equal(gradient, fused.loss_gradient(fused.frequencies(logits), targets[0]))


def float_logits(gpt, parameters, symbols):
    """The same network in ordinary float64 autograd: the reference for the gradient."""
    c = gpt.config
    n_rows, n_time, _ = symbols.shape
    width = c.width // c.n_heads
    cos, sin = (x.double() for x in rotary_phases(c, 0, n_time))

    def norm(x):
        return x / x.square().mean(-1, keepdim=True).sqrt()

    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    t = torch.arange(n_time)
    hidden = (t[None] > t[:, None]) | (t[None] <= t[:, None] - c.window)
    h = sum(table[symbols[..., e]] for e, table in enumerate(parameters["embedding"]))
    h = h + parameters["contexts"][gpt._weights.contexts.row_indices(symbols.flatten(0, 1))].sum(1).view(h.shape)
    for i in range(c.n_layers):
        qkv = norm(h) @ parameters[f"{i}.qkv"]
        q, k, v = qkv.view(n_rows, n_time, 3, c.n_heads, width).permute(2, 0, 3, 1, 4)
        z = norm(rotate(q)) @ norm(rotate(k)).transpose(-1, -2) * gpt._weights.score_scale
        p = z.masked_fill(hidden, float("-inf")).softmax(-1)
        h = h + (p @ v).transpose(1, 2).reshape(n_rows, n_time, -1) @ parameters[f"{i}.out"]
        h = h + (norm(h) @ parameters[f"{i}.up"]).relu().square() @ parameters[f"{i}.down"]
    return norm(h) @ parameters["head"]


def dense(gradient, gpt):
    """A ContextGradient as a tensor of the table's shape."""
    g = torch.zeros(gpt._weights.contexts.rows.shape)
    for rows in gradient.rows.t():
        g.index_add_(0, rows, gradient.g)
    return g


@KERNELS
def test_gradients_agree_with_float_autograd_of_the_same_network(ops):
    gpt = make_gpt(ops)
    linears = gpt._hidden_matrices | {"head": gpt._weights.head}
    for name, linear in linears.items():  # no zero projections: every path carries gradient
        generator = torch.Generator().manual_seed(len(name))
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) * 0.2)
        linear.quantise()
    inputs, targets, places = drawn_rows(3)
    phases = rotary_phases(CONFIG, 0, ROW_LENGTH)
    rows = gpt._weights.rows_of_tables(inputs.flatten(0, 1), places.flatten()).unflatten(0, places.shape)
    gradient, _ = gpt._forward_rows(rows, targets, phases)
    parameters = {name: (linear.levels * linear.scale).double() for name, linear in linears.items()}
    parameters["embedding"] = gpt._weights.embedding.double()
    parameters["contexts"] = gpt._weights.contexts.rows.double() / UNITS
    for p in parameters.values():
        p.requires_grad_()
    logits = float_logits(gpt, parameters, inputs).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum")
    expected = torch.autograd.grad(loss, logits, retain_graph=True)[0].flatten()
    assert torch.corrcoef(torch.stack((gradient.flatten().double(), expected)))[0, 1] > 0.998
    logits.backward(gradient.double())
    for name, gradient_of in gpt._gradients(rows, targets):
        g = dense(gradient_of, gpt) if name == "contexts" else gradient_of()
        reference = parameters[name].grad.flatten()
        cosine = torch.dot(g.flatten().double(), reference) / (g.double().norm() * reference.norm())
        assert cosine > 0.985, (name, cosine)
        assert 0.9 < g.double().norm() / reference.norm() < 1.1, name


# ---- states from other sources


def test_a_value_that_cannot_be_a_sum_of_squares_a_scale_or_a_shift_is_refused():
    good = trained(make_gpt()).state()
    names = ("contexts.squares", "adam.square.head", "carried.k_r", "carried.v_scale")
    cases = [(name, value) for name in names for value in (-1e-3, float("nan"), float("inf"), 1e31)]
    for name, value in [*cases, ("contexts.shifts", -1), ("contexts.shifts", 18)]:
        state = {key: tensor.clone() for key, tensor in good.items()}
        state[name].view(-1)[0] = value
        with pytest.raises(ValueError, match=name):
            make_gpt().load_state(state)


def test_squares_of_contexts_may_grow_as_long_as_a_run_lasts():
    state = {key: tensor.clone() for key, tensor in trained(make_gpt()).state().items()}
    state["contexts.squares"].fill_(1e7)
    other = make_gpt()
    other.load_state(state)
    assert bool((trained(other).state()["contexts"].isfinite()).all())
