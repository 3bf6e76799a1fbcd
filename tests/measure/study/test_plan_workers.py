"""A plan's runs, shared by several processes: each is made once, and the first process hears of all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

import prequential
from prequential import Config, GPTConfig, Runtime, ScheduleConfig
from prequential.measure.study.plan_workers import Spread
from prequential.measure.study.sweep import Outcome, Plan, config_key, plan, sweep

TINY = Config(
    gpt=GPTConfig(n_layers=1, width=16, n_heads=1, window=8),
    mixer=None,
    schedule=ScheduleConfig(
        first_segment_symbols=64, segment_symbols=128, row_symbols=32, n_rows=4, history_bits=14, block_symbols=1024
    ),
)
TEXT = b"it was the best of times, it was the worst of times. " * 8


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("prequential.measure.evaluation.evaluation.warm_up", lambda *_: None)
    path = tmp_path / "corpus"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def two() -> tuple[Spread, Spread]:
    store = dist.HashStore()
    return Spread(store, 0, 2), Spread(store, 1, 2)


def outcomes(
    corpus: Path, folder: Path, of: Plan, spread: Spread | None, evaluate=prequential.evaluate
) -> list[Outcome]:
    machine = Runtime(kernels="plain", threads=1)
    return list(sweep(corpus, of, folder, evaluate=evaluate, program_version="0", runtime=machine, spread=spread))


def test_two_processes_make_every_run_once(corpus: Path, tmp_path: Path, two: tuple[Spread, Spread]) -> None:
    of = plan(TINY, seeds=[0, 1, 2, 3, 4])
    with ThreadPoolExecutor() as both:
        first, other = both.map(lambda spread: outcomes(corpus, tmp_path / "runs", of, spread), two)
    assert {o.config.seed for o in first} == {0, 1, 2, 3, 4}
    assert len(first) == 5  # each once, by whichever process
    assert len(prequential.read_runs(tmp_path / "runs")) == 5
    assert {o.config.seed for o in other} < {0, 1, 2, 3, 4}
    alone = {
        o.config.seed: o.run.record["archive_bits"] for o in outcomes(corpus, tmp_path / "alone", of, None) if o.run
    }
    assert {o.config.seed: o.run.record["archive_bits"] for o in first if o.run} == alone


def test_the_first_hears_why_another_processs_run_failed(
    corpus: Path, tmp_path: Path, two: tuple[Spread, Spread]
) -> None:
    def fails(*_: object, **__: object) -> object:
        raise prequential.CorpusError("the disk is gone")

    first, other = two
    of = plan(TINY, seeds=[0, 1])
    assert [str(o.error) for o in outcomes(corpus, tmp_path / "runs", of, other, fails)] == ["the disk is gone"] * 2
    heard = outcomes(corpus, tmp_path / "runs", of, first)
    assert [(o.run, str(o.error)) for o in heard] == [(None, "the disk is gone")] * 2


def test_a_folder_that_is_not_shared_is_named(corpus: Path, tmp_path: Path, two: tuple[Spread, Spread]) -> None:
    first, other = two
    of = plan(TINY, seeds=[0])
    assert outcomes(corpus, tmp_path / "elsewhere", of, other)[0].run
    (found,) = outcomes(corpus, tmp_path / "runs", of, first)
    assert found.run is None
    assert "which all workers must share" in str(found.error)


def test_a_process_that_has_ended_is_not_waited_for(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prequential.measure.study.plan_workers.LOST_S", 0.5)
    store = dist.HashStore()
    of = plan(TINY, seeds=[0, 1])
    key = config_key(of.configs[0].to_dict())
    store.set("beat 1", "3")  # all that is left of it, and a claim
    assert store.add(f"claim {key}", 1) == 1
    store.set(f"by {key}", "1")
    made = {o.config.seed: o for o in outcomes(corpus, tmp_path / "runs", of, Spread(store, 0, 2))}
    assert made[1].run
    assert str(made[0].error) == "worker 1, which had taken it, has ended or does not answer"


def test_without_torchrun_nothing_is_shared() -> None:
    assert Spread.launched() is None
