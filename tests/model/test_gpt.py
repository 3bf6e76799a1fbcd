"""The GPT: any split of a segment gives the same bits, the past alone counts, and the gradient is the gradient."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prequential.exact import fused, plain
from prequential.exact.matmul import Matmul
from prequential.exact.pool import Pool
from prequential.model import gpt as module
from prequential.model.config import GPTConfig
from prequential.model.gpt import GPT

CONFIG = GPTConfig(n_layers=2, width=32, n_heads=2, mlp_factor=2, window=7, warmup_updates=1)
N_STREAMS, N_COLUMNS, N_SYMBOLS = 3, 10, 11


def make_gpt(ops=plain, config=CONFIG, n_threads=1):
    gpt = GPT(config, N_SYMBOLS, seed=1, ops=ops, matmul=Matmul("float64"), pool=Pool(n_threads))
    gpt.set_streams([0] * N_STREAMS)
    return gpt


def drawn_symbols(seed, n_columns=N_COLUMNS):
    return torch.randint(N_SYMBOLS, (N_STREAMS, n_columns), generator=torch.Generator().manual_seed(seed))


def drawn_gradient(seed, n_columns=N_COLUMNS):
    return torch.randn(N_STREAMS * n_columns, N_SYMBOLS, generator=torch.Generator().manual_seed(seed))


def run_segment(gpt, symbols, cuts):
    gpt.begin(symbols.shape[1])
    edges = [0, *sorted(cuts), symbols.shape[1]]
    return torch.cat([gpt.forward(symbols[:, a:b], a) for a, b in pairwise(edges) if a < b], 1)


@pytest.mark.parametrize("ops", [plain, fused], ids=["plain", "fused"])
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.sets(st.integers(1, N_COLUMNS - 1)), min_size=3, max_size=3))
def test_any_split_of_a_segment_gives_the_same_logits_and_the_same_state(ops, cuts):
    whole, split = make_gpt(ops), make_gpt(ops)
    for i, cut in enumerate(cuts):
        symbols, gradient = drawn_symbols(i), drawn_gradient(i)
        assert torch.equal(run_segment(whole, symbols, set()), run_segment(split, symbols, cut))
        whole.update(gradient)
        split.update(gradient)
        for name, tensor in whole.state().items():
            assert torch.equal(tensor, split.state()[name]), name


def test_kernels_and_threads_do_not_change_the_state(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_THREAD", 1)
    states = []
    for ops, n_threads in ((plain, 1), (fused, 1), (plain, 2), (fused, 2), (fused, 3)):
        gpt = make_gpt(ops, n_threads=n_threads)
        for i in range(4):
            run_segment(gpt, drawn_symbols(i), set())
            gpt.update(drawn_gradient(i))
        states.append(gpt.state())
    for state in states[1:]:
        for name, tensor in states[0].items():
            assert torch.equal(tensor, state[name]), name


@settings(max_examples=20, deadline=None)
@given(column=st.integers(0, N_COLUMNS - 1), symbol=st.integers(0, N_SYMBOLS - 1))
def test_a_symbol_changes_no_logits_before_it(column, symbol):
    gpt = make_gpt()
    run_segment(gpt, drawn_symbols(0), set())
    gpt.update(drawn_gradient(0))
    symbols = drawn_symbols(1)
    before = run_segment(gpt, symbols, set())
    changed = symbols.clone()
    changed[:, column] = symbol
    after = run_segment(gpt, changed, set())
    assert torch.equal(before[:, :column], after[:, :column])


def test_logits_depend_on_the_carried_memory_as_far_as_the_window_reaches_and_no_further():
    """With one layer, column 0 of a segment sees the last window - 1 columns of the one before it."""
    config = GPTConfig(n_layers=1, width=32, n_heads=2, mlp_factor=2, window=7, warmup_updates=1)

    def first_logits(changed_column):
        gpt = make_gpt(config=config)
        for i in range(3):  # a first output projection that is not zero
            run_segment(gpt, drawn_symbols(i), set())
            gpt.update(drawn_gradient(i))
        symbols = drawn_symbols(7)
        if changed_column is not None:
            symbols[:, changed_column] = (symbols[:, changed_column] + 1) % N_SYMBOLS
        run_segment(gpt, symbols, set())
        gpt._close()  # no update, so that only the memory differs
        return run_segment(gpt, drawn_symbols(8), set())[:, 0]

    unchanged = first_logits(None)
    assert not torch.equal(unchanged, first_logits(N_COLUMNS - (config.window - 1)))
    assert torch.equal(unchanged, first_logits(N_COLUMNS - config.window))


def test_streams_continue_the_streams_they_are_told_to():
    """Rolling identical streams changes nothing; a stream that continues another one predicts as that one would."""
    gpt = make_gpt()
    run_segment(gpt, drawn_symbols(0), set())
    gpt.update(drawn_gradient(0))
    gpt.set_streams([2, 0, 1])
    symbols = drawn_symbols(1)
    rolled = run_segment(gpt, symbols, set())
    gpt.set_streams([1, 2, 0])
    straight = run_segment(gpt, symbols[[1, 2, 0]], set())
    assert torch.equal(rolled[[1, 2, 0]], straight)


def float_logits(gpt, parameters, symbols):
    """The same network in ordinary float64 autograd: the reference for the gradient."""
    c = gpt.config
    n_streams, n_time = symbols.shape
    width = c.width // c.n_heads
    cos, sin = gpt._cos.double(), gpt._sin.double()

    def norm(x):
        return x / x.square().mean(-1, keepdim=True).sqrt()

    def rotate(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    t = torch.arange(n_time)
    hidden = (t[None] > t[:, None]) | (t[None] <= t[:, None] - c.window)
    h = parameters["embedding"][symbols]
    for i in range(c.n_layers):
        qkv = norm(h) @ parameters[f"{i}.qkv"]
        q, k, v = qkv.view(n_streams, n_time, 3, c.n_heads, width).permute(2, 0, 3, 1, 4)
        z = norm(rotate(q)) @ norm(rotate(k)).transpose(-1, -2) * gpt._score_scale
        p = z.masked_fill(hidden, float("-inf")).softmax(-1)
        h = h + (p @ v).transpose(1, 2).reshape(n_streams, n_time, -1) @ parameters[f"{i}.out"]
        h = h + (norm(h) @ parameters[f"{i}.up"]).relu().square() @ parameters[f"{i}.down"]
    return norm(h) @ parameters["head"]


def test_gradients_agree_with_float_autograd_of_the_same_network():
    gpt = make_gpt()
    for name, linear in [*gpt._hidden(), ("head", gpt.head)]:  # no zero projections: every path carries gradient
        generator = torch.Generator().manual_seed(len(name))
        linear.weight.copy_(torch.randn(linear.weight.shape, generator=generator) * 0.2)
        linear.quantise()
    symbols, gradient = drawn_symbols(3), drawn_gradient(3)
    logits = run_segment(gpt, symbols, set())
    parameters = {"embedding": gpt.embedding.double(), "head": (gpt.head.levels * gpt.head.scale).double()}
    parameters |= {name: (linear.levels * linear.scale).double() for name, linear in gpt._hidden()}
    for p in parameters.values():
        p.requires_grad_()
    expected = float_logits(gpt, parameters, symbols)
    assert torch.corrcoef(torch.stack((logits.flatten().double(), expected.detach().flatten())))[0, 1] > 0.998
    expected.flatten(0, 1).backward(gradient.double())
    for name, gradient_of in gpt._backward(gradient):
        g = gradient_of()
        reference = parameters[name].grad.flatten()
        cosine = torch.dot(g.flatten().double(), reference) / (g.double().norm() * reference.norm())
        assert cosine > 0.985, (name, cosine)
        assert 0.9 < g.double().norm() / reference.norm() < 1.1, name


def test_the_state_covers_every_tensor_that_a_step_changes():
    """A learner rebuilt from another's state predicts and learns alike: nothing is missing from it."""
    gpt, copy = make_gpt(), make_gpt()
    for i in range(2):
        run_segment(gpt, drawn_symbols(i), set())
        gpt.update(drawn_gradient(i))
    for name, tensor in gpt.state().items():
        if name != "counters":
            copy.state()[name].copy_(tensor)
    copy._n_updates, copy._n_columns, copy._n_carried = gpt.state()["counters"].tolist()
    for _, linear in [*copy._hidden(), ("head", copy.head)]:
        linear.quantise()
    for i in range(2, 4):
        assert torch.equal(run_segment(gpt, drawn_symbols(i), set()), run_segment(copy, drawn_symbols(i), set()))
        gpt.update(drawn_gradient(i))
        copy.update(drawn_gradient(i))
