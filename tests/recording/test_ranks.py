from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import prequential
from prequential.errors import CausalityError

N_STEPS, N_ROWS, COLUMNS = 70, 4, 100


def _rows() -> torch.Tensor:
    rows = torch.randint(0, 256, (N_STEPS, N_ROWS, COLUMNS + 1), generator=torch.Generator().manual_seed(0))
    rows[40:50] = rows[10:20].flip(1)  # rows that come again, on the other rank
    rows[60:] = rows[:10].flip(1).roll(9, 2)  # text that comes again, on the other rank, at another place
    return rows


def _train(
    rank: int, world: int, folder: str, fault_at: int | None = None, n_first: int | None = None
) -> prequential.Run:
    """A run whose losses depend on the rows alone, so that one rank and two must agree to the last digit."""
    model = torch.nn.Embedding(256, 256)
    torch.nn.init.zeros_(model.weight)
    called = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rec = prequential.Recorder(folder, name="m", model=called, optimizer=optimizer, units="bytes", strict=True)
    for step, rows in enumerate(_rows()):
        if step == n_first:
            state = rec.state_dict()
            rec.finish()
            rec = prequential.Recorder(folder, name="m", model=called, optimizer=optimizer, units="bytes", strict=True)
            rec.load_state_dict(state)
        own = rows[rank::world]
        x, y = own[:, :-1], own[:, 1:]
        logits = called(x)
        rec.score(nll=(y % 7) / 4.0, targets=y, inputs=x)
        if rank == 1 and step == fault_at:
            called(x.flip(1))  # one rank trains on rows without a score
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    run = rec.finish()
    kept.append(len(rec._account._seen))
    return run


kept: list[int] = []  # rows that this process remembers


def _sharded(rank: int, folder: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(256, 32), torch.nn.Linear(32, 256))
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters())
    rec = prequential.Recorder(
        f"{folder}/runs", name="m", model=model, optimizer=optimizer, units="bytes", audit_every=10
    )
    for rows in _rows():
        x, y = rows[rank::2, :-1], rows[rank::2, 1:]
        logits = model(x)
        rec.score(logits=logits, targets=y, inputs=x)
        cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    rec.finish()
    dist.destroy_process_group()


def _rank(rank: int, folder: str, fault_at: int | None, n_first: int | None) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    try:
        run = _train(rank, 2, f"{folder}/runs", fault_at, n_first)
        (Path(folder) / f"bits-{rank}").write_text(repr((run.record["code_bits"], run.record["corpus"])))
        (Path(folder) / f"kept-{rank}").write_text(str(kept[-1]))
    except CausalityError as error:
        (Path(folder) / f"error-{rank}").write_text(str(error))
        dist.barrier()  # a rank that is gone would abort the other one's thread of communication
    finally:
        dist.destroy_process_group()


def _two_ranks(folder: Path, fault_at: int | None = None, n_first: int | None = None) -> None:
    torch.multiprocessing.spawn(_rank, (str(folder), fault_at, n_first), nprocs=2)


@pytest.mark.parametrize("n_first", [33, None])
@pytest.mark.first_quick
def test_two_ranks_give_what_one_gives(tmp_path: Path, n_first: int | None) -> None:
    _two_ranks(tmp_path, n_first=n_first)
    one = _train(0, 1, str(tmp_path / "one")).record
    both = max((run.record for run in prequential.read_runs(tmp_path / "runs")), key=lambda each: each["n_tokens"])
    assert both["reported"]["n_ranks"] == 2 and both["reported"]["repeated"]["n_rows"] == 40
    ignored = ("n_ranks", "n_audits")
    first, second = ({k: v for k, v in r["reported"].items() if k not in ignored} for r in (one, both))
    assert first == second
    assert both["code_bits"] == one["code_bits"] and both["corpus"] == one["corpus"]
    texts = [(tmp_path / f"bits-{rank}").read_text() for rank in (0, 1)]
    assert texts[0] == texts[1]  # every rank returns the run
    shares = [int((tmp_path / f"kept-{rank}").read_text()) for rank in (0, 1)]
    n_grams, n_seen = (one["reported"][name] for name in ("n_grams", "n_grams_seen"))
    assert sum(shares) == 240 + n_grams - n_seen and min(shares) > 80  # they share the memory of rows
    assert 5 <= n_seen <= n_grams / 4


def test_a_mistake_of_one_rank_stops_all(tmp_path: Path) -> None:
    _two_ranks(tmp_path, fault_at=5)
    assert {(tmp_path / f"error-{rank}").read_text() for rank in (0, 1)} == {
        "step 6 trained on 2 rows that were not scored before it"
    }


@pytest.mark.thorough
def test_the_weights_may_be_sharded_over_ranks(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_sharded, (str(tmp_path),), nprocs=2)
    (run,) = prequential.read_runs(tmp_path / "runs")
    reported = run.record["reported"]
    assert (reported["n_ranks"], reported["n_audits"], reported["n_parameters"]) == (2, 11, 256 * 32 * 2 + 256)
    assert reported["new"]["n_rows"] == 240 and not run.record["findings"]
