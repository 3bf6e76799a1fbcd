"""The data multiple: how many times more bytes one learner needs than another for the same loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prequential import Curve
from prequential.evaluation.curves import mean_curve
from prequential.sweeps.data_multiple import N_WINDOWS, compare_data, data_multiple, falling


def power_law(n_bytes: int, speed: float, floor: float = 1.0) -> Curve:
    """A learner whose loss after n bytes is floor + 7 / sqrt(1 + speed * n / 1000) bits per byte."""
    at = np.arange(64, n_bytes + 1, 64, dtype=np.int64)
    scale = 1000 / speed
    return Curve(n_bytes=at, bits=floor * at + 14 * scale * (np.sqrt(1 + at / scale) - 1))


@pytest.mark.parametrize("speed", [1.5, 2.0, 4.0])
def test_a_learner_that_needs_a_share_of_the_data_has_the_inverse_as_its_multiple(speed: float) -> None:
    multiple = data_multiple(power_law(1 << 18, speed), power_law(1 << 18, 1.0))
    assert multiple == pytest.approx(speed, rel=0.08)  # windows are wide where the faster one is


def test_exchanged_curves_have_the_inverse_multiple() -> None:
    fast, slow = power_law(1 << 16, 3.0), power_law(1 << 16, 1.0)
    forth, back = data_multiple(fast, slow), data_multiple(slow, fast)
    assert forth is not None
    assert back is not None
    assert forth > 1 > back
    assert forth * back == pytest.approx(1.0, rel=1e-12)


def test_a_curve_against_itself_has_multiple_one() -> None:
    curve = power_law(1 << 14, 1.0)
    assert data_multiple(curve, curve) == 1.0


@pytest.mark.parametrize("ease", [0.05, 0.1, 0.2, 0.5, 1.0])
def test_stretches_that_are_easy_for_both_do_not_count_as_learning(ease: float) -> None:
    fast, slow = power_law(1 << 18, 2.0), power_law(1 << 18, 1.0)
    easy = np.where(fast.n_bytes // (1 << 14) % 4 == 1, -ease, 0.0)  # bits per byte
    change = np.cumsum(np.diff(fast.n_bytes, prepend=0) * (easy - easy.mean()))
    multiple = data_multiple(*(Curve(n_bytes=c.n_bytes, bits=c.bits + change) for c in (fast, slow)))
    assert multiple is not None
    assert 1.3 < multiple < 2.1  # without the falling fit, the windows give up to 2.7


def test_a_loss_reached_within_the_first_window_gives_no_multiple_but_a_reason() -> None:
    good = power_law(1 << 14, 1.0, floor=0.0)
    flat = Curve(n_bytes=good.n_bytes, bits=8.0 * good.n_bytes)
    slow = Curve(n_bytes=good.n_bytes, bits=8.0 * good.n_bytes - good.n_bytes**2 / 2**16)  # 8 falling to 7.5
    for curve, baseline, who in ((flat, flat, "it"), (good, slow, "it"), (slow, good, "the baseline")):
        multiple, reason = compare_data(curve, baseline)
        assert multiple is None
        assert reason.startswith(f"{who} reaches ")
        assert reason.endswith(f"within its first {(1 << 14) // N_WINDOWS} bytes")


@given(st.lists(st.integers(-8, 8).map(float), min_size=1, max_size=12))
def test_the_nearest_falling_sequence_falls_keeps_the_sum_and_is_optimal(values: list[float]) -> None:
    found = falling(np.array(values))
    residual = np.array(values) - found
    assert (np.diff(found) <= 1e-12).all()
    # A projection on a cone is optimal if the residual is orthogonal to it and does not point into the cone.
    assert residual @ found == pytest.approx(0.0, abs=1e-9)
    assert residual.sum() == pytest.approx(0.0, abs=1e-9)
    assert (np.cumsum(residual)[:-1] <= 1e-9).all()


def test_a_mean_curve_is_the_mean_at_the_positions_of_the_first_curve() -> None:
    a = Curve(n_bytes=np.array([10, 20]), bits=np.array([40.0, 60.0]))
    b = Curve(n_bytes=np.array([20]), bits=np.array([100.0]))
    assert mean_curve([a, b]).bits.tolist() == [45.0, 80.0]
