"""The health of a run: each finding on data made for it, no finding on ordinary text, and no fault that stops a run."""

import dataclasses
import math
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from prequential_corpora.sources import sample_path

from prequential.online.coding import Progress
from prequential.online.health import Finding, Health

SEGMENT = 1024
WINDOW = 1 << 14
MIB = 1 << 20
SAMPLE = Path(sample_path("christmas_carol")).read_bytes()
NOISE = np.random.default_rng(0).bytes(4 * MIB)
PROSE = b"".join(
    b"%s %d. " % (SAMPLE[place : place + 61], number)
    for number, place in enumerate(np.random.default_rng(1).integers(0, len(SAMPLE) - 61, 8000).tolist())
)


class Machine:
    """A clock that the test sets, and the Health that reads it."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.health = Health(clock=lambda: self.time_s)
        self.done = Progress()

    def run(
        self,
        data: bytes,
        rate: float | Callable[[int], float] = 2.0,
        *,
        n_bytes: int | None = None,
        bytes_per_s: float = 10_000,
        update_size: float | None = None,
    ) -> "Machine":
        """Reports `data` as the next part of n_bytes, coded at `rate` bits per byte; `rate` may be a function of the position."""
        for start in range(0, len(data), SEGMENT):
            segment = np.frombuffer(data[start : start + SEGMENT], np.uint8)
            self.time_s += len(segment) / bytes_per_s
            position = self.done.n_bytes + len(segment)
            self.done = Progress(
                n_bytes=position,
                code_bits=self.done.code_bits + len(segment) * (rate if isinstance(rate, float) else rate(position)),
                n_blocks=position >> 18,
                segment=segment,
                update_size=update_size,
            )
            self.health(self.done, n_bytes or 1 << 40)
        return self

    def end(self) -> "Machine":
        """Makes the last report of a run."""
        last = dataclasses.replace(self.done, segment=np.zeros(0, np.uint8))
        self.health(last, last.n_bytes)
        self.done = Progress()
        return self

    @property
    def found(self) -> list[tuple[str, str]]:
        return [(finding.kind, finding.cause) for finding in self.health.findings]


def learned(position: int) -> float:
    """Bits per byte of a learner that improves, with fluctuations between segments."""
    return 1.5 + 3.0 / (1 + position / 20_000) + 0.3 * math.sin(position)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_ordinary_text_gives_no_finding(machine: Machine) -> None:
    machine.run(PROSE, learned, update_size=0.01).end()
    assert machine.found == []


@pytest.mark.parametrize(
    ("before", "rate", "data", "spike_rate", "cause", "reason"),
    [
        (PROSE[: 20 * WINDOW], 2.0, NOISE[:WINDOW], 6.0, "data", "gzip's bits/byte rose too"),
        (PROSE[: 20 * WINDOW], 2.0, PROSE[20 * WINDOW :][:WINDOW], 4.6, "model", "gzip needs only"),
        (PROSE[: 20 * WINDOW], 0.5, PROSE[20 * WINDOW :][:WINDOW], 2.0, "data", "helps less here"),
    ],
)
def test_a_spike_has_the_cause_that_gzip_points_to(
    machine: Machine, before: bytes, rate: float, data: bytes, spike_rate: float, cause: str, reason: str
) -> None:
    (finding,) = machine.run(before, rate).run(data, spike_rate).health.findings
    assert (finding.kind, finding.cause, finding.position, finding.block) == ("spike", cause, 20 * WINDOW, 1)
    assert reason in finding.message


@pytest.mark.parametrize(("rate", "update_size"), [(math.nan, 0.01), (math.inf, 0.01), (2.0, math.nan)])
def test_a_cost_or_a_step_that_is_not_finite_comes_from_the_model(
    machine: Machine, rate: float, update_size: float
) -> None:
    machine.run(PROSE[: 20 * WINDOW], update_size=0.01).run(PROSE[20 * WINDOW :], rate, update_size=update_size)
    assert machine.found == [("not finite", "model")]


@pytest.mark.parametrize("rate", [0.001, 1.0])
def test_data_that_are_almost_free_for_the_learner_or_for_gzip_are_repeated(machine: Machine, rate: float) -> None:
    machine.run(PROSE[: 16 * WINDOW], 1.0).run(bytes(32 * WINDOW), rate).end()
    assert [(f.kind, f.cause, f.position) for f in machine.health.findings] == [("repeated", "data", 16 * WINDOW)]


def test_many_spikes_give_few_findings(machine: Machine) -> None:
    machine.run((PROSE[: 10 * WINDOW] + NOISE[:WINDOW]) * 40, lambda p: 6.0 if p // WINDOW % 11 == 10 else 2.0)
    assert 2 <= len(machine.health.findings) <= 6


def test_a_second_run_is_not_watched(machine: Machine) -> None:
    machine.run(bytes(8 * WINDOW), 0.01).end()
    before = len(machine.found)
    machine.run(bytes(8 * WINDOW), 0.01).end()
    assert before == len(machine.found) == 1


def test_a_resumed_run_is_watched_from_its_position(machine: Machine) -> None:
    machine.done = Progress(n_bytes=10 * MIB, code_bits=2.0 * 10 * MIB, n_blocks=40)
    assert machine.run(PROSE[: 2 * SEGMENT]).health.status(20 * MIB) == "2.000 bits/byte, 10.0 kB/s, 0:17:28 left"
    machine.run(PROSE[2 * SEGMENT : 20 * WINDOW]).run(NOISE[: 2 * WINDOW], 6.0)
    (finding,) = machine.health.findings
    assert finding.position == 10 * MIB + SEGMENT + 20 * WINDOW
    assert "gzip" not in machine.health.status(20 * MIB)


def test_a_finding_is_one_line_that_says_where_and_what(machine: Machine) -> None:
    (finding,) = machine.run(PROSE[: 20 * WINDOW]).run(NOISE[:WINDOW], 6.0).health.findings
    assert str(finding).startswith("byte 327,680, block 1: loss spike: 6.00 bits/byte, usually 2.00; ")
    assert str(finding).endswith("; most likely the data")
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


def test_the_status_has_the_total_and_latest_rate_gzip_speed_and_time_left(machine: Machine) -> None:
    machine.run(SAMPLE[: 6 * WINDOW], 2.0).run(SAMPLE[6 * WINDOW : 8 * WINDOW], 3.0)
    gzip = 8 * len(zlib.compress(SAMPLE[: 8 * WINDOW], 9)) / (8 * WINDOW)
    text = machine.health.status(2 * 8 * WINDOW)
    parts = text.replace("(", "").replace(")", "").split(", ")
    assert parts[0] == "2.250 bits/byte last 64K 2.500"
    assert float(parts[1].removeprefix("gzip ")) == pytest.approx(gzip, rel=0.01)
    assert parts[2:] == ["10.0 kB/s", "0:00:13 left"]
