"""The table of context embeddings: the rows that it adds, the rows that a step changes, and when it changes them."""

import numpy as np
import pytest
import torch

from prequential.errors import ConfigError
from prequential.exact import plain
from prequential.model.config import CONTEXT_REACH, GPTConfig
from prequential.model.gpt.context_table import MAX_LEVEL, UNITS, ContextTable, compressed

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
    found, largest = table.add_to(zeros, replayed), before.abs().amax(1, keepdim=True)
    assert not torch.equal(table.add_to(zeros, indices), before)  # the table has learned
    assert before.any() and ((found - before).abs() <= largest / 127).all()


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


@pytest.mark.parametrize("names", ["2", ["7"], ["2", "2"], [2]])
def test_unknown_contexts_are_refused(names):
    with pytest.raises(ConfigError, match="context"):
        GPTConfig(contexts=names)
