"""Ladders of training loops: real recorders on tiny models. What they report is used, and never said to be proved."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

import prequential
from prequential import ConfigError, CorpusError
from prequential.forecasting.forecast import Forecast, Target, forecast_record
from prequential.forecasting.members import read_ladder
from prequential.sweeps.ladder import Parameters, Size

WIDTHS = (2, 3, 4, 6, 8)
N_STEPS, N_ROWS, COLUMNS = 48, 4, 32
V = 256


def text_rows(n_steps: int) -> torch.Tensor:
    """Disjoint rows of a bundled text."""
    text = prequential.sample_path("christmas_carol").read_bytes()[3000:]
    n = n_steps * N_ROWS
    return torch.tensor(list(text[: n * (COLUMNS + 1)])).view(n, COLUMNS + 1)


def train(folder: Path, width: int, rows: torch.Tensor, *, seed: int = 0, knows_model: bool = True) -> prequential.Run:
    """A bigram model of this width, trained by a plain loop that a Recorder watches."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Embedding(V, width), torch.nn.Linear(width, V))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    what = {"model": model if knows_model else None, "optimizer": optimizer, "arguments": {"seed": seed}}
    rec = prequential.Recorder(folder, name=f"width {width}", units="bytes", audit_every=0, **what)
    for part in rows.split(N_ROWS):
        x, y = part[:, :-1], part[:, 1:]
        logits = model(x)
        rec.score(logits=logits, targets=y, inputs=x)
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    return rec.finish()


def n_parameters(width: int) -> int:
    return V * width + width * V + V


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder."""
    folder = tmp_path_factory.mktemp("loops")
    for width in WIDTHS:
        train(folder / "runs", width, text_rows(N_STEPS))
    return folder


def test_runs_of_a_recorder_are_a_ladder_by_their_parameters(folder: Path) -> None:
    ladder = read_ladder(folder / "runs")
    assert [rung.n_weights for rung in ladder.rungs] == [n_parameters(width) for width in WIDTHS]
    assert str(ladder.sizes[0]) == "1,280 parameters"
    last, n_bytes = ladder.rungs[-1], N_STEPS * N_ROWS * COLUMNS
    assert last.operations(n_bytes) == 6 * last.n_weights * n_bytes  # a byte is a token here
    with pytest.raises(ConfigError, match="the ladder is of training loops: give --target-parameters"):
        Target(size=Size(64, 2), n_bytes=n_bytes).to_record(ladder)


@pytest.mark.thorough
def test_a_loop_with_other_rows_is_no_member_the_newest_of_a_size_counts_and_one_without_a_size_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    rows = text_rows(N_STEPS)
    for width in WIDTHS[:3]:
        train(tmp_path, width, rows)
    train(tmp_path, 6, rows.roll(1, 1))
    newest = train(tmp_path, WIDTHS[0], rows)
    ladder = read_ladder(tmp_path)
    assert [rung.n_weights for rung in ladder.rungs] == [n_parameters(width) for width in WIDTHS[:3]]
    assert ladder.rungs[0].run.name == newest.name
    train(tmp_path, 8, rows, knows_model=False)
    with pytest.raises(CorpusError, match="cannot be in a ladder: its size is not known"):
        read_ladder(tmp_path)


@pytest.mark.thorough
def test_loops_that_all_saw_different_rows_are_no_ladder(tmp_path: Path) -> None:
    for shift, width in enumerate(WIDTHS[:3]):
        train(tmp_path, width, text_rows(N_STEPS).roll(shift, 1))
    with pytest.raises(CorpusError, match="3 ladders of 1 sizes each, the loops scored different rows"):
        read_ladder(tmp_path)


@pytest.mark.thorough
def test_a_forecast_of_training_loops_is_made_and_scored_as_reported(folder: Path, tmp_path: Path) -> None:
    proxy = train(tmp_path, 2, text_rows(4 * N_STEPS))
    target = {"target_parameters": n_parameters(16), "target_bytes": 4 * N_STEPS * N_ROWS * COLUMNS}
    forecast = prequential.forecast(folder / "runs", **target, proxies=[proxy])
    assert "reported by a training loop; not proved; rows: the same rows, in the same order" in str(forecast)
    assert "only if the learning rate did not depend on the length" in str(forecast)
    assert forecast.record["compute"]["ratio"] > 6
    longer = train(folder / "runs", 16, text_rows(4 * N_STEPS + 2))  # it may go on after the target's bytes
    score = forecast.score(longer)
    assert "reported by a training loop; not proved" in str(score)
    with pytest.raises(ConfigError, match="the target has been run already"):
        prequential.forecast(folder / "runs", **target)


@pytest.mark.thorough
def test_a_forecast_says_that_the_order_differs(tmp_path: Path) -> None:
    rows = text_rows(N_STEPS)
    for i, width in enumerate(WIDTHS[:4]):
        train(tmp_path, width, rows.flip(0) if i == 1 else rows)
    record = forecast_record(read_ladder(tmp_path), Target(size=Parameters(n_parameters(16)), n_bytes=200_000))
    assert "in another order" in record["rows"] and "different orders" in str(Forecast(record=record))


def test_a_forecast_of_logs_says_that_the_order_is_unknown_and_a_log_is_no_proxy_of_loops(
    folder: Path, tmp_path: Path
) -> None:
    columns = {"tokens": "seen", "loss": "loss", "bytes_per_token": 4.0, "data": "web"}
    for width in WIDTHS[:4]:
        losses = [f"{1000 * k},{3 + width**-0.5 + k**-0.5}" for k in range(1, 40)]
        (tmp_path / "log.csv").write_text("\n".join(["seen,loss", *losses]))
        size = {"n_parameters": n_parameters(width)}
        run = prequential.import_log(tmp_path / "log.csv", tmp_path / "runs", **columns, arguments=size)
    target = Target(size=Parameters(n_parameters(16)), n_bytes=200_000)
    record = forecast_record(read_ladder(tmp_path / "runs"), target)
    assert "declared equal, not checked" in record["rows"] and record["proof"].endswith("; not proved")
    with pytest.raises(CorpusError, match="is not reported like the runs of the ladder"):
        forecast_record(read_ladder(folder / "runs"), target, proxies=[run])
