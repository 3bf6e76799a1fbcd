"""transformers.Trainer with the callback of a recorder: the weights are those of a training without it, and the sum is right."""

import math
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import prequential
from prequential.errors import CausalityError

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")
COLUMNS, N_ROWS = 12, 22  # with 4 rows a batch, the last batch is short


def _gpt(**options: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": 256, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **options))


def _mixtral() -> Any:
    """A mixture of experts, whose loss has a part of its router that is large."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=256, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_local_experts=4, max_position_embeddings=16, output_router_logits=True,
        router_aux_loss_coef=0.5,
    )  # fmt: skip
    return transformers.MixtralForCausalLM(config)


class Fused(torch.nn.Module):
    """A model in the manner of Liger: with labels it returns the loss alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = _gpt()

    def forward(self, input_ids: Any, labels: Any = None) -> Any:
        found = self.inner(input_ids, labels=labels)
        return {"loss": found.loss} if labels is not None else {"logits": found.logits}


def _smoothed(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    logits = outputs.logits[:, :-1].flatten(0, 1)
    return cross_entropy(logits, labels[:, 1:].flatten(), label_smoothing=0.1, reduction="sum") / num_items_in_batch


class OwnLoss(transformers.Trainer):  # type: ignore[misc]
    """A Trainer that takes the labels out and makes a loss of its own."""

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        labels = inputs.pop("labels")
        found = model(**inputs)
        loss = 2.0 * cross_entropy(found.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return (loss, found) if return_outputs else loss


class Summed(transformers.Trainer):  # type: ignore[misc]
    """It sums the losses of the targets, for a comparison."""

    nats = 0.0

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
        targets = inputs["labels"][:, 1:].flatten()
        loss, found = super().compute_loss(model, inputs, return_outputs=True, **more)
        if model.training:
            logits = found["logits"][:, :-1].detach().double().flatten(0, 1)
            self.nats += float(cross_entropy(logits, targets, reduction="sum"))
        return (loss, found) if return_outputs else loss


def _rows(n: int = N_ROWS) -> list[dict[str, torch.Tensor]]:
    rows = torch.randint(0, 256, (n, COLUMNS), generator=torch.Generator().manual_seed(0))
    labels = rows.clone()
    labels[::3, :4] = -100  # a prompt
    return [{"input_ids": row, "labels": target} for row, target in zip(rows, labels, strict=True)]


def _train(
    folder: Path, model: Any, rec: Any = None, kind: Any = transformers.Trainer, loss: Any = None, **options: Any
) -> Any:
    """The Trainer after its training."""
    arguments = transformers.TrainingArguments(
        str(folder), **{
            "per_device_train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 1e-2, "save_strategy": "no",
            "logging_steps": 1, "report_to": "none", "use_cpu": True, "disable_tqdm": True, "seed": 0,
        } | options,
    )  # fmt: skip
    made = kind(
        model, arguments, train_dataset=_rows(), eval_dataset=_rows(4), compute_loss_func=loss,
        callbacks=[rec.hf_callback()] if rec else [],
    )  # fmt: skip
    made.train()
    return made


def _recorder(folder: Path, **options: Any) -> prequential.Recorder:
    return prequential.Recorder(folder / "runs", name="t", units="bytes", **({"strict": False} | options))


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "router loss": {"make": _mixtral},
    "two parts": {"gradient_accumulation_steps": 2},
    "three parts": {"gradient_accumulation_steps": 3, "label_smoothing_factor": 0.1},
    "bfloat16": {"bf16": True},
    "gradient checkpoints": {"gradient_checkpointing": True},
    "a loss function": {"loss": _smoothed, "gradient_accumulation_steps": 2},
    "a loss method": {"kind": OwnLoss},
    "evaluations": {"eval_strategy": "steps", "eval_steps": 2},
    "compiled": {"torch_compile": True, "torch_compile_backend": "eager"},
    "fused": {"make": Fused},
}


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.first_quick) for case in CASES])
def test_the_weights_are_those_of_a_training_without_the_recorder(tmp_path: Path, case: str) -> None:
    found = []
    options = dict(CASES[case])
    make = options.pop("make", _gpt)
    for rec in (None, _recorder(tmp_path, audit_every=2)):
        model = make()
        trainer = _train(tmp_path, model, rec, **options)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        found.append(({name: value.clone() for name, value in model.state_dict().items()}, losses))
    (bare, bare_losses), (recorded, losses) = found
    assert losses == bare_losses and losses
    assert all(torch.equal(bare[name], recorded[name]) for name in bare)
    if case != "fused":
        record = rec.finish().record
        assert record["reported"]["n_rows"] == N_ROWS and not record["findings"]
        assert record["n_tokens"] == sum(int((row["labels"][1:] != -100).sum()) for row in _rows())
        assert record["reported"]["n_audits"] >= 2 and record["reported"]["not_audited"] == ""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.first_quick) for case in ("router loss", "three parts")]
)
def test_the_code_length_is_the_sum_of_the_plain_losses(tmp_path: Path, case: str) -> None:
    options = dict(CASES[case])
    model, rec = options.pop("make", _gpt)(), _recorder(tmp_path)
    trainer = _train(tmp_path, model, rec, Summed, eval_strategy="steps", eval_steps=1, **options)
    record = rec.finish().record
    assert record["code_bits"] * math.log(2.0) == pytest.approx(trainer.nats, rel=1e-6)
    assert trainer.compute_loss == trainer.compute_loss.__self__.compute_loss  # it is the method again
    logs = [each for each in trainer.state.log_history if "loss" in each]
    assert logs and all("prequential/mistakes" in each for each in logs)  # what the Trainer's own loggers get
    if case == "router loss":
        assert trainer.state.log_history[0]["loss"] > record["nats_per_token"] + 0.3


def test_a_fused_loss_without_logits_is_told_once_and_ends_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rec = _recorder(tmp_path)
    trainer = _train(tmp_path, Fused(), rec)
    told = [fault for fault in rec.faults if "no logits" in fault]
    assert "nothing was scored" in caplog.text
    assert len(told) == 1 and "use_liger_kernel=False" in told[0] and "rec.score(nll=" in told[0]
    assert trainer.state.global_step == 6 and "no logits" in rec.faults[0]
    with pytest.raises(CausalityError, match="step 1: the model returned no logits"):
        _train(tmp_path, Fused(), _recorder(tmp_path, strict=True))


def test_the_scores_of_a_loss_method_of_ones_own_are_the_only_ones(tmp_path: Path) -> None:
    rec = _recorder(tmp_path)

    class Scoring(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            x, y = inputs["input_ids"], torch.nn.functional.pad(inputs["labels"][:, 1:], (0, 1), value=-100)
            nll = cross_entropy(model(x)["logits"].flatten(0, 1), y.flatten(), reduction="none")
            rec.score(nll=nll, targets=y, inputs=x)
            return nll.sum() / (y != -100).sum()

    _train(tmp_path, Fused(), rec, Scoring)
    record = rec.finish().record
    assert record["reported"]["n_rows"] == N_ROWS and not record["findings"]


def test_labels_that_a_model_does_not_shift_are_not_scored(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 256, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    rec = _recorder(tmp_path)
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, decoder_start_token_id=0))
    _train(tmp_path, model, rec)
    assert "no labels (rows, columns) of a causal language model" in rec.faults[0]


class Once(transformers.Trainer):  # type: ignore[misc]
    others: Any = torch.zeros(4, 0, COLUMNS, dtype=torch.int64)  # other batches, which pass through the model first

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **more: Any) -> Any:
        with torch.no_grad():
            for ids in self.others.unbind(1):
                model(input_ids=ids[: len(inputs["input_ids"])])
        return model(**inputs).loss


class Twice(Once):
    others = torch.arange(4 * COLUMNS).view(4, 1, COLUMNS)


def test_of_two_calls_the_one_with_the_ids_of_the_batch_is_scored(tmp_path: Path) -> None:
    bits, no_dropout = [], {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    for kind in (Once, Twice):
        rec = _recorder(tmp_path / kind.__name__)
        _train(tmp_path / kind.__name__, _gpt(**no_dropout), rec, kind)
        bits.append(rec.finish().record["code_bits"])
    assert bits[0] == bits[1]


def _rank(rank: int, folder: str, port: int) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(port)}
    os.environ |= {"MASTER_ADDR": "localhost", "ACCELERATE_USE_CPU": "true"}
    found = []
    for rec in (None, _recorder(Path(folder), audit_every=2)):
        model = _gpt()
        _train(Path(folder), model, rec, label_smoothing_factor=0.1, ddp_backend="gloo")
        found.append([value.clone() for value in model.state_dict().values()])
    assert all(map(torch.equal, *found))
    torch.distributed.destroy_process_group()


@pytest.mark.thorough
def test_two_processes_of_a_trainer_score_all_rows(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(_rank, (str(tmp_path), port), nprocs=2)
    (run,) = prequential.read_runs(tmp_path / "runs")
    assert run.record["reported"]["n_ranks"] == 2 and not run.record["findings"]
    assert run.record["reported"]["new"]["n_rows"] == N_ROWS
