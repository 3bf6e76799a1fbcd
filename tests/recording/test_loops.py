"""The examples of docs/loops with the real libraries, and their resumption."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import prequential
from prequential.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "docs" / "loops"


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports an example as its user would, from its folder, with the sample cut to a few rows."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def imported(name: str, n_batches: int = 6) -> ModuleType:
        for each in ("plain_loop", name):
            monkeypatch.delitem(sys.modules, each, raising=False)
        plain = importlib.import_module("plain_loop")
        whole = plain.batches
        monkeypatch.setattr(plain, "batches", lambda: whole(16, 8)[:n_batches])
        return importlib.import_module(name)

    return imported


def _needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["trainer_loop", "plain_loop", "lightning_loop"])
@pytest.mark.first_quick
def test_each_example_leaves_a_run_of_the_same_rows(tmp_path: Path, loop: Any, name: str) -> None:
    _needs(*{"trainer_loop": ["transformers", "accelerate"], "lightning_loop": ["lightning"]}.get(name, []))
    run = loop(name).train(str(tmp_path))
    plain = loop("plain_loop").train(str(tmp_path))
    assert run.record["corpus"] == plain.record["corpus"]
    assert run.record["reported"]["order"] == plain.record["reported"]["order"]
    assert run.record["reported"]["n_audits"] == 3 and run.record["reported"]["n_steps"] == 6
    assert 7 < run.record["bits_per_byte"] < 9 and not run.record["findings"]


def _trainer(folder: Path, rec: prequential.Recorder, rows: list[torch.Tensor], n_steps: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=n_steps, save_steps=3,
        eval_strategy="steps", eval_steps=2, lr_scheduler_type="constant", train_sampling_strategy="sequential",
        report_to="none", use_cpu=True, disable_tqdm=True, seed=0,
    )  # fmt: skip
    data = [{"input_ids": row, "labels": row} for row in rows]
    return Trainer(
        GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data[:4],
        callbacks=[rec.hf_callback()],
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_trainer_that_resumes_counts_each_row_once(tmp_path: Path) -> None:
    """With an accumulated gradient, dropout, and evaluations between the steps; the lost steps are made again."""
    _needs("transformers", "accelerate")
    rows = list(torch.randint(0, 256, (64, 33), generator=torch.Generator().manual_seed(0))[:, :32])

    def recorder() -> prequential.Recorder:
        return prequential.Recorder(tmp_path / "runs", name="t", units="bytes")

    whole = recorder()
    _trainer(tmp_path / "a", whole, rows, 8).train()
    first, second = recorder(), recorder()
    _trainer(tmp_path / "b", first, rows, 5).train()  # steps 4 and 5 are after the last checkpoint but one
    _trainer(tmp_path / "b", second, rows, 8).train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-3"))
    found = [rec.finish().record for rec in (whole, second)]
    assert found[0]["code_bits"] == found[1]["code_bits"]
    assert found[0]["reported"]["order"] == found[1]["reported"]["order"]
    assert found[1]["reported"]["new"]["n_rows"] == 32 and found[1]["reported"]["repeated"]["n_rows"] == 0
    (tmp_path / "b" / "checkpoint-3" / "recorder.pt").unlink()
    with pytest.raises(ConfigError, match=r"no recorder\.pt"):
        _trainer(tmp_path / "b", recorder(), rows, 8).train(resume_from_checkpoint=str(tmp_path / "b" / "checkpoint-3"))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_a_lightning_run_that_resumes_equals_a_whole_one(tmp_path: Path, loop: Any) -> None:
    _needs("lightning")
    import lightning

    example = loop("lightning_loop")

    def fit(n_epochs: int, checkpoint: Path | None = None) -> tuple[Any, prequential.Run]:
        torch.manual_seed(0)
        rec = prequential.Recorder(tmp_path / "runs", name="l", units="bytes")
        task = example.Task(rec)
        rec.attach(model=task.model)
        trainer = lightning.Trainer(
            max_epochs=n_epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[rec.lightning_callback()],
        )  # fmt: skip
        trainer.fit(task, torch.utils.data.DataLoader(torch.cat(example.batches()), batch_size=8), ckpt_path=checkpoint)
        return trainer, rec.finish()

    _, whole = fit(2)
    trainer, _ = fit(1)
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    _, resumed = fit(2, tmp_path / "one.ckpt")
    assert resumed.record["code_bits"] == whole.record["code_bits"]
    assert resumed.record["reported"]["order"] == whole.record["reported"]["order"]
    assert resumed.record["reported"]["repeated"]["n_rows"] == 48


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_labels_that_follow_a_rule_cost_a_fine_tuned_model_less_than_shuffled_ones(tmp_path: Path, loop: Any) -> None:
    _needs("transformers", "peft")
    found = loop("fine_tuning").measure(str(tmp_path), n_rows=512, n_steps=150)
    bits = {name: run.record["code_bits"] for name, run in found.items()}
    assert bits["pre-trained"] < 0.9 * bits["pre-trained, shuffled labels"] and bits["pre-trained"] < 0.9 * 2 * 512
    assert bits["pre-trained, shuffled labels"] > 0.98 * 2 * 512  # which of four labels it is, nobody can know
    assert all(run.record["n_tokens"] == 512 for run in found.values())
