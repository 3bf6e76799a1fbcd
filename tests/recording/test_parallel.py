"""Models that are divided over processes: which of them records, and with which group (docs/RECORDING.md)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

import prequential
from prequential.recording.score import n_parameters

COLUMNS, V = 40, 256


def _rows(n_steps: int = 66) -> torch.Tensor:
    return torch.randint(0, V, (n_steps, 4, COLUMNS + 1), generator=torch.Generator().manual_seed(0))


def _model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(V, 16), torch.nn.Linear(16, V))


def _whole(folder: Path) -> prequential.Run:
    """The run of one process."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec = prequential.Recorder(folder, name="m", model=model, optimizer=optimizer, units="bytes")
    for rows in _rows():
        x, y = rows[:, :-1], rows[:, 1:]
        logits = model(x)
        rec.score(logits=logits, targets=y, inputs=x)
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return rec.finish()


def _spawned(rank: int, folder: str, train: Callable[[int, str], None]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        train(rank, f"{folder}/runs")
    finally:
        dist.destroy_process_group()


def _two(folder: Path, train: Callable[[int, str], None]) -> list[prequential.Run]:
    torch.multiprocessing.spawn(_spawned, (str(folder), train), nprocs=2)
    assert not list((folder / "runs").glob(".run-*"))
    return prequential.read_runs(folder / "runs")


def _tensor_parallel(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(_model(), mesh["tensor"], {"1": ColwiseParallel(output_layouts=Replicate())})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec = None
    if mesh.get_local_rank("tensor") == 0:  # one of the processes that see the same rows
        group = mesh["data"].get_group()
        rec = prequential.Recorder(
            folder, name="m", model=model, optimizer=optimizer, units="bytes", process_group=group, audit_every=0
        )
    for rows in _rows():
        x, y = rows[:, :-1], rows[:, 1:]
        logits = model(x)
        if rec:
            rec.score(logits=logits, targets=y, inputs=x)
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    if rec:
        rec.finish()


def _pipeline(rank: int, folder: str) -> None:
    stage = _model()[rank]
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    groups = [dist.new_group([each]) for each in range(2)]  # the processes of one stage: here one each
    rec = None
    if rank == 1:  # the last stage, which has the scores
        rec = prequential.Recorder(folder, name="m", optimizer=optimizer, units="bytes", process_group=groups[rank])
    for rows in _rows():
        x, y = rows[:, :-1], rows[:, 1:]
        if rank == 0:
            hidden = stage(x)
            gradient = torch.empty_like(hidden)
            dist.send(hidden.detach(), 1)
            dist.recv(gradient, 1)
            hidden.backward(gradient)
        else:
            hidden = torch.empty(*x.shape, 16)
            dist.recv(hidden, 0)
            logits = stage(hidden.requires_grad_())
            rec.score(logits=logits, targets=y, inputs=x)
            cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
            dist.send(hidden.grad, 0)
        optimizer.step()
        optimizer.zero_grad()
    if rec:
        rec.finish()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [_tensor_parallel, _pipeline])
def test_a_model_divided_over_two_processes_leaves_the_run_of_one(
    tmp_path: Path, train: Callable[[int, str], None]
) -> None:
    (run,), one = _two(tmp_path, train), _whole(tmp_path / "one")
    assert run.record["corpus"] == one.record["corpus"] and not run.record["findings"]
    assert run.record["reported"]["order"] == one.record["reported"]["order"]
    assert run.record["code_bits"] == pytest.approx(one.record["code_bits"], rel=1e-5)


def _sharded(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    found, cpu = {}, torch.device("cpu")
    for uses_original in (False, True):
        options = {"use_orig_params": uses_original, "device_id": cpu}
        inner = FullyShardedDataParallel(_model(), **options)
        outer = FullyShardedDataParallel(torch.nn.Sequential(inner, torch.nn.Linear(V, 3)), **options)
        found[f"FSDP1 {uses_original}"] = outer
    found["fully_shard"] = fully_shard(_model(), mesh=init_device_mesh("cpu", (2,)))
    counts = {name: n_parameters(model) for name, model in found.items()}
    Path(folder, f"{rank}.json").write_text(json.dumps(counts))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_sharded_weights_count_as_whole_tensors(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    _two(tmp_path, _sharded)
    inner, outer = V * 16 + 16 * V + V, 3 * V + 3
    for rank in (0, 1):
        counts = json.loads((tmp_path / "runs" / f"{rank}.json").read_text())
        assert counts == {"FSDP1 False": inner + outer, "FSDP1 True": inner + outer, "fully_shard": inner}


def _one_rank_has_an_impossible_row(rank: int, folder: str) -> None:
    rec = prequential.Recorder(folder, name="m", units="bytes")
    for step, rows in enumerate(_rows()):
        nll = torch.ones(2, COLUMNS)
        if (rank, step) == (1, 3):
            nll[0, 0] = torch.nan
        rec.score(nll=nll, targets=rows[rank::2, 1:], inputs=rows[rank::2, :-1])
        rec.step()
    assert rec.finish().record["reported"]["n_not_finite"] == 1


@pytest.mark.thorough
def test_an_impossible_row_of_one_rank_is_counted_apart_by_all(tmp_path: Path) -> None:
    (run,) = _two(tmp_path, _one_rank_has_an_impossible_row)
    assert run.record["reported"]["new"]["n_rows"] == 66 * 4 - 1 and len(run.record["findings"]) == 1
