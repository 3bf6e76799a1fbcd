"""Several processes: which rows each of them sees, and which of them records (docs/RECORDING.md)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import prequential
from prequential.errors import CausalityError
from prequential.recording.score import n_parameters

N_STEPS, N_ROWS, COLUMNS, V = 70, 4, 100, 256


def _rows() -> torch.Tensor:
    rows = torch.randint(0, V, (N_STEPS, N_ROWS, COLUMNS + 1), generator=torch.Generator().manual_seed(0))
    rows[40:50] = rows[10:20].flip(1)  # rows that come again, on the other rank
    rows[60:] = rows[:10].flip(1).roll(9, 2)  # text that comes again, on the other rank, at another place
    return rows


def _model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(V, 16), torch.nn.Linear(16, V))


def _train(model: Any, folder: str, data: torch.Tensor, records: bool = True, **options: Any) -> prequential.Run | None:
    """A run of rows (steps, rows, columns), with a recorder if this process has one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"name": "m", "units": "bytes", "model": model, "optimizer": optimizer} | options
    rec = prequential.Recorder(folder, **options) if records else None
    for rows in data:
        x, y = rows[:, :-1], rows[:, 1:]
        logits = model(x)
        if rec:
            rec.score(logits=logits, targets=y, inputs=x)
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    return rec.finish() if rec else None


def _spawned(rank: int, folder: str, train: Callable[..., None], *args: Any) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    train(rank, folder, *args)
    dist.barrier()  # a rank that is gone would abort the other one's thread of communication
    dist.destroy_process_group()


def _two(folder: Path, train: Callable[..., None], *args: Any) -> list[Any]:
    """What both ranks wrote."""
    torch.multiprocessing.spawn(_spawned, (str(folder), train, *args), nprocs=2)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*"))]


def _exact(rank: int, world: int, folder: str, fault_at: int | None = None) -> tuple[prequential.Run, int]:
    """A resumed run whose losses depend on the rows alone, so that one rank and two must agree to the last digit."""
    model = torch.nn.Embedding(V, V)
    torch.nn.init.zeros_(model.weight)
    called = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"name": "m", "model": called, "optimizer": optimizer, "units": "bytes", "strict": True}
    rec = prequential.Recorder(folder, **options)
    for step, rows in enumerate(_rows()):
        if step == 33 and world > 1 and not fault_at:
            state = rec._ranks.gathered(rec.state_dict())[0]  # the first rank saved its own
            rec.finish()
            rec = prequential.Recorder(folder, **options)
            rec.load_state_dict(state)
        own = rows[rank::world]
        x, y = own[:, :-1], own[:, 1:]
        logits = called(x)
        if step == 32:  # each rank scores half of them
            names = [f"document {i}" for i in range(rank, len(rows), world)]
            rec.heldout("val", nll=(y % 7) / 4.0, targets=y, documents=names)
        rec.score(nll=(y % 7) / 4.0, targets=y, inputs=x, groups=[f"g{first % 3}" for first in y[:, 0].tolist()])
        if rank == 1 and step == fault_at:
            called(x.flip(1))  # one rank trains on rows without a score
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    return rec.finish(), len(rec._account._seen)


def _exact_rank(rank: int, folder: str, fault_at: int | None) -> None:
    try:
        run, n_kept = _exact(rank, 2, f"{folder}/runs", fault_at)
        said: Any = [run.record["code_bits"], run.record["corpus"], n_kept]
    except CausalityError as error:
        said = str(error)
    Path(folder, f"rank-{rank}").write_text(json.dumps(said))


@pytest.mark.first_quick
@pytest.mark.thorough
def test_two_ranks_that_resume_give_what_one_gives(tmp_path: Path) -> None:
    said = _two(tmp_path, _exact_rank, None)
    one = _exact(0, 1, str(tmp_path / "one"))[0].record
    both = max((run.record for run in prequential.read_runs(tmp_path / "runs")), key=lambda each: each["n_tokens"])
    assert both["reported"]["n_ranks"] == 2 and both["reported"]["repeated"]["n_rows"] == 40
    first, second = (
        {name: value for name, value in record["reported"].items() if name not in ("n_ranks", "n_audits")}
        for record in (one, both)
    )
    assert first == second and one["tables"] == both["tables"]
    kept = [json.loads(path.read_text()) for path in tmp_path.glob("**/heldout-val.jsonl")]
    assert len(kept) == 3 and len({json.dumps([each["test"], each["frozen"]]) for each in kept}) == 1
    assert sum(row["bits"]["model"] for row in both["tables"]["groups"]["rows"]) == both["code_bits"]
    assert said[0][:2] == said[1][:2] == [one["code_bits"], one["corpus"]]  # every rank returns the run
    n_grams, n_seen = (one["reported"][name] for name in ("n_grams", "n_grams_seen"))
    assert sum(each[2] for each in said) == 240 + n_grams - n_seen  # they share the memory of rows
    assert min(each[2] for each in said) > 80 and 5 <= n_seen <= n_grams / 4


@pytest.mark.thorough
def test_a_mistake_of_one_rank_stops_all(tmp_path: Path) -> None:
    assert _two(tmp_path, _exact_rank, 5) == ["step 6 trained on 2 rows that were not scored before it"] * 2


def _tensor_parallel(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("data", "tensor"))
    model = parallelize_module(_model(), mesh["tensor"], {"1": ColwiseParallel(output_layouts=Replicate())})
    is_first = mesh.get_local_rank("tensor") == 0  # of the processes that see the same rows
    group = mesh["data"].get_group()
    _train(model, f"{folder}/runs", _rows(), is_first, process_group=group, audit_every=0)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_model_divided_over_two_processes_leaves_the_run_of_one(tmp_path: Path) -> None:
    _two(tmp_path, _tensor_parallel)
    (run,), one = prequential.read_runs(tmp_path / "runs"), _train(_model(), str(tmp_path / "one"), _rows())
    assert run.record["corpus"] == one.record["corpus"] and run.record["findings"] == one.record["findings"]
    assert run.record["reported"]["order"] == one.record["reported"]["order"]
    assert run.record["code_bits"] == pytest.approx(one.record["code_bits"], rel=1e-5)


def _sharded(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    assert n_parameters(FullyShardedDataParallel(_model(), device_id=torch.device("cpu"))) is None
    model = fully_shard(_model(), mesh=init_device_mesh("cpu", (2,)))
    run = _train(model, f"{folder}/runs", _rows()[:, rank::2], audit_every=10)
    Path(folder, f"rank-{rank}").write_text(json.dumps(run.record["reported"]["n_parameters"]))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_the_weights_may_be_sharded_over_ranks_and_count_as_wholes(tmp_path: Path) -> None:
    said = _two(tmp_path, _sharded)
    assert said == [V * 16 + 16 * V + V] * 2
    (run,) = prequential.read_runs(tmp_path / "runs")
    assert run.record["reported"]["n_audits"] == 11 and run.record["reported"]["new"]["n_rows"] == 240
