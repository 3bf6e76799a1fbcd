"""The table of context embeddings: the rows of each context, those that it adds, and those that a step changes, and when."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prequential.exact import fused, plain
from prequential.model.config import CONTEXT_REACH, GPT_CONTEXTS, MOST_CONTEXT_TERMS, RECALL_CONTEXTS, GPTConfig
from prequential.model.gpt.context_table import (
    LONGEST,
    MAX_LEVEL,
    SUM_LIMIT,
    UNITS,
    ContextTable,
    compressed,
    context_rows,
    row_changes,
)  # fmt: skip

CONFIG = GPTConfig(width=16, n_heads=1, contexts=("2", "word"), context_bits=6, memory_bits=13)


def drawn(n, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.randint(97, 101, (n, CONTEXT_REACH), generator=random), torch.randn(n, 16, generator=random)


def gradient_of(table, recent, g):
    """The gradient at new positions, with the places 0, 1, .. in memory."""
    places = ~torch.arange(len(recent))
    return table.gradient(g, torch.cat((table.row_indices(recent), places[:, None]), 1))


def learned(recent, g, n_steps=1):
    table = ContextTable(CONFIG, plain)
    for _ in range(n_steps):
        table.stage_update(gradient_of(table, recent, g))
        table.commit()
    return table


def test_a_step_is_seen_only_after_it_is_committed():
    (recent, g), table = drawn(5), ContextTable(CONFIG, plain)
    table.stage_update(gradient_of(table, recent, g))
    expected = learned(recent, g).state()
    assert expected["contexts"].any()
    assert not table.rows.any()
    for _ in range(2):
        table.commit()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in table.state().items())


def test_a_step_changes_the_rows_of_its_contexts_and_no_others():
    recent, g = drawn(3)
    table = learned(recent, g)
    changed = table.rows.any(1).nonzero()[:, 0]
    assert changed.tolist() == table.row_indices(recent).unique().tolist()
    assert torch.equal(table.squares > 0, table.rows.any(1))


def test_a_step_is_that_of_the_format():
    recent, g = drawn(1)
    table, one = learned(recent, g), np.float32(1)
    row = table.row_indices(recent)[0, 0]
    peak = np.abs(g.numpy()).max()
    levels = np.rint(g.numpy()[0] * ((one / peak) * np.float32(32767)))
    summed = levels.astype(np.float32) * (peak * np.float32(1 / 32767))
    top = np.abs(summed).max()
    rounded = np.rint(summed * ((one / top) * np.float32(127)))
    scale = top * np.float32(1 / 127)
    a = np.float32(np.square(rounded).sum()) * (scale * scale) * np.float32(1 / 16)
    factor = (one / (np.sqrt(a) + np.float32(1e-8))) * np.float32(CONFIG.context_step)
    assert np.array_equal(table.rows[row].numpy(), -np.rint(summed * factor * np.float32(4096)))
    assert table.squares[row] == a


@pytest.mark.parametrize("scale", [0.0, 1e-37, 1e-20, 1e10])
def test_gradients_of_any_size_give_finite_numbers(scale):
    recent, g = drawn(5)
    table = learned(recent, g * scale, n_steps=2)
    assert table.squares.isfinite().all()
    assert table.rows.float().norm() <= 2 * UNITS * CONFIG.context_step * table.rows.numel() ** 0.5


def test_rows_stay_in_their_range():
    (recent, g), table = drawn(5), ContextTable(CONFIG, plain)
    touched = table.row_indices(recent).unique()
    for sign in (1, -1):
        table.rows[touched] = sign * MAX_LEVEL
        table.stage_update(gradient_of(table, recent, -sign * g.abs()))
        table.commit()
        assert (table.rows[touched] == sign * MAX_LEVEL).all()


def test_the_rows_of_a_position_are_added():
    (recent, g), table = drawn(5), learned(*drawn(40), n_steps=3)
    rows = table.row_indices(recent)
    added = table.rows[rows].sum(1) / UNITS
    assert added.any() and torch.equal(table.add_to(g, rows), g + added)


def test_a_replayed_position_gets_the_sum_that_its_rows_had_when_it_was_new():
    (recent, g), table = drawn(6), learned(*drawn(40), n_steps=3)
    indices, zeros = table.row_indices(recent), torch.zeros(6, 16)
    before, new = table.add_to(zeros, indices), ~torch.arange(100, 106)
    table.stage_update(table.gradient(g, torch.cat((indices, new[:, None]), 1)))
    replayed = torch.cat((indices, ~new[:, None]), 1)
    assert not table.add_to(zeros, replayed).any()  # kept only when the segment has ended
    table.commit()
    assert torch.equal(table.add_to(zeros, torch.cat((indices, new[:, None]), 1)), table.add_to(zeros, indices))
    recalled, largest = table.add_to(zeros, replayed), before.abs().amax(1, keepdim=True)
    assert not torch.equal(table.add_to(zeros, indices), before)  # the table has learned
    assert before.any() and ((recalled - before).abs() <= largest / 127).all()


def test_replayed_positions_do_not_change_the_table():
    (recent, g), tables = drawn(40), [learned(*drawn(40)), learned(*drawn(40))]
    places = ~torch.arange(40)
    for table, others in zip(tables, (g, torch.full_like(g, 1e6)), strict=True):
        rows = torch.cat((table.row_indices(recent), places[:, None]), 1)
        rows[::2, -1] = 3
        table.stage_update(table.gradient(torch.where(rows[:, -1:] < 0, g, others), rows))
        table.commit()
    for name, tensor in tables[0].state().items():
        assert torch.equal(tensor, tables[1].state()[name]), name


def test_sums_are_kept_with_8_bits_and_the_smallest_shift():
    sums = torch.tensor(
        [[0, 0], [127, -127], [127, -128], [-255, 3], [5000, 1], [-(1 << 23) - 9, 1 << 22]], dtype=torch.int32
    )
    levels, shifts = compressed(sums)
    assert shifts.tolist() == [0, 0, 1, 1, 6, 17]
    assert levels.tolist() == [[0, 0], [127, -127], [64, -64], [-127, 2], [78, 0], [-64, 32]]


# ---- rows of contexts, and sums of gradients by row

WORD, WORD2 = GPT_CONTEXTS.index("word"), GPT_CONTEXTS.index("word2")
ALL_KINDS = range(len(GPT_CONTEXTS))


def rows_after(text, kinds=ALL_KINDS, n_rows=1 << 24):
    """The rows of each kind after `text`, which symbol 0 precedes. Values that are recalled are 500, 501, ..."""
    symbols = (bytes(CONTEXT_REACH) + text)[-CONTEXT_REACH:]
    last = np.frombuffer(symbols[::-1], np.uint8).astype(np.int64)
    recent = np.concatenate((last, 500 + np.arange(len(RECALL_CONTEXTS))))[None]
    kinds = np.array(list(kinds), np.int64)
    rows = np.empty((1, len(kinds)), np.int64)
    context_rows(recent, kinds, n_rows, rows)
    return rows[0]


@pytest.mark.parametrize("order", range(2, LONGEST + 1))
def test_a_context_of_some_symbols_depends_on_these_and_no_others(order):
    kind = [order - 2]
    text = bytes(range(60, 60 + CONTEXT_REACH))
    for back in range(1, CONTEXT_REACH + 1):
        changed = bytearray(text)
        changed[-back] ^= 1
        assert (rows_after(text, kind) != rows_after(bytes(changed), kind)) == (back <= order)


def test_a_word_depends_only_on_its_letters_in_any_case():
    assert rows_after(b"in The", [WORD]) == rows_after(b"12 the", [WORD]) == rows_after(b"\nTHE", [WORD])
    assert rows_after(b"the", [WORD]) != rows_after(b"thee", [WORD])
    assert rows_after(b"the ", [WORD]) == rows_after(b"a, ", [WORD])  # no word has begun


def test_two_words_are_the_current_word_and_the_word_before_the_separator():
    assert rows_after(b"to be or", [WORD2]) == rows_after(b"not Be,or", [WORD2])
    assert rows_after(b"to be or", [WORD2]) != rows_after(b"to he or", [WORD2])


def test_different_kinds_have_different_rows_for_the_same_symbols():
    assert len(set(rows_after(b"ab"))) == len(GPT_CONTEXTS)


@given(st.binary(max_size=20), st.integers(1, 24))
def test_rows_lie_in_the_table(text, bits):
    rows = rows_after(text, n_rows=1 << bits)
    assert (rows >= 0).all() and (rows < 1 << bits).all()


def test_rows_spread_evenly():
    texts = [b"%x" % (i * 2654435761 & 0xFFFFFF) for i in range(4000)]
    counts = np.bincount([rows_after(text, [LONGEST - 2], 64)[0] for text in texts], minlength=64)
    chi_squared = float(((counts - 4000 / 64) ** 2 / (4000 / 64)).sum())
    assert chi_squared < 120  # 63 degrees of freedom: by chance with a probability of 2e-5


@pytest.mark.parametrize("scale", [1.0, 1e-16, 1e12])
def test_the_kernel_of_a_step_has_the_bits_of_the_primitives_in_any_order(scale):
    tables = [ContextTable(CONFIG, ops) for ops in (plain, fused, fused)]
    for step in range(4):
        (recent, g), ascending = drawn(60, step), torch.arange(60)
        orders = ascending, ascending, torch.from_numpy(np.random.default_rng(step).permutation(60))
        for table, order in zip(tables, orders, strict=True):
            rows = torch.cat((table.row_indices(recent), ~ascending[:, None]), 1)
            table.stage_update(table.gradient(g[order] * scale, rows[order]))
            table.commit()
    expected = tables[0].state()
    assert bool(expected["contexts"].any()) == (scale >= 1) and SUM_LIMIT * MOST_CONTEXT_TERMS < 1 << 31
    for table in tables[1:]:
        assert all(torch.equal(tensor, expected[name]) for name, tensor in table.state().items())


def test_a_change_is_that_of_the_sum_of_rounded_gradients():
    random = np.random.default_rng(2)
    g, rows = random.normal(size=(50, 8)).astype(np.float32), random.integers(0, 9, (50, 3))
    peak, squares = np.float32(np.abs(g).max()), np.zeros(16, np.float32)
    touched, change = row_changes(g, peak, rows, squares, np.float32(0.1))
    levels = np.rint(g * ((np.float32(1) / peak) * np.float32(SUM_LIMIT))).astype(np.int64)
    sums = np.zeros((16, 8), np.int64)
    np.add.at(sums, rows.ravel(), np.repeat(levels, 3, 0))
    assert sorted(touched) == sorted(set(rows.ravel())) and (squares[touched] > 0).all() and not squares[9:].any()
    # The first step of Adagrad is the gradient over the root of its mean square.
    expected = sums[touched] / np.sqrt((sums[touched] ** 2).mean(1, keepdims=True)) * 0.1 * UNITS
    assert np.abs(change - expected).max() < 0.03 * np.abs(expected).max()
