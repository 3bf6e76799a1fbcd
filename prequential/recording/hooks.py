"""A Recorder in the loops of transformers and Lightning: the last two functions are its methods."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad

from prequential.errors import ConfigError, PrequentialError
from prequential.recording.causal import logits_of, named_ids
from prequential.recording.score import IGNORED

STATE_FILE = "recorder.pt"
REMEDY = "call rec.score(nll=..., targets=..., inputs=...) in compute_loss"
NO_TARGETS = "the batch has no labels (rows, columns) of a causal language model"
NO_LOGITS = "the model returned no logits of the labels' shape, as with a fused loss (use_liger_kernel=False)"


def watch(recorder: Any, trainer: Any) -> Callable[[], None]:
    """Scores each batch that a Trainer trains on; its loss passes untouched, its logs get `rec.metrics()`. Returns what ends it.

    The targets are read before `Trainer.compute_loss`, which may take them out of the batch; the logits are those that the model
    returns within it. Where compute_loss of the user calls `rec.score` itself, nothing more is scored.
    """
    whole, log, mistakes = trainer.compute_loss, trainer.log, list[ConfigError]()
    batch: dict[str, Any] = {}  # targets, ids; then logits and inputs of the call that counts

    @torch.compiler.disable
    def saw(model: Any, args: Any, kwargs: Any, returned: Any) -> None:
        if "targets" not in batch or (logits := logits_of(returned, batch["targets"].shape)) is None:
            return
        inputs, ids = named_ids(args, kwargs), batch["ids"]
        is_own = inputs is not None and ids is not None and inputs.data_ptr() == ids.data_ptr()
        if "logits" not in batch or (is_own and not batch["is_own"]):  # a loss may call the model more than once
            batch.update(logits=logits.detach(), inputs=inputs, is_own=is_own)

    def compute_loss(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not (model.training and torch.is_grad_enabled()):  # an evaluation is no training
            return whole(model, inputs, *args, **kwargs)
        batch.clear()
        if (targets := _targets(trainer.model, inputs)) is not None:
            batch.update(targets=targets, ids=inputs.get("input_ids"))
        n_scores, loss = recorder._n_scores, whole(model, inputs, *args, **kwargs)
        try:
            if recorder._n_scores == n_scores:
                if "logits" not in batch:
                    raise ConfigError(f"{NO_LOGITS if batch else NO_TARGETS}: {REMEDY}")
                logits = batch["logits"]
                recorder.score(logits=logits, targets=batch["targets"].to(logits.device), inputs=batch["inputs"])
        except ConfigError as error:
            mistakes.append(error)
            if len(mistakes) == 1:
                recorder._fault(f"step {recorder.observed.n_steps + 1}: {error}")
        batch.clear()
        return loss

    def with_metrics(logs: Any, *args: Any, **kwargs: Any) -> Any:
        return log({**logs, **recorder.metrics()} if "loss" in logs else logs, *args, **kwargs)

    hook = trainer.model_wrapped.register_forward_hook(saw, with_kwargs=True)
    trainer.compute_loss, trainer.log = compute_loss, with_metrics

    def end() -> None:
        hook.remove()
        trainer.compute_loss, trainer.log = whole, log

    return end


def _targets(model: Any, inputs: Any) -> Any:
    """The targets (rows, columns) of a batch, shifted as causal language models of transformers shift their labels, or None."""
    labels, shifted = inputs.get("labels"), inputs.get("shift_labels")
    if getattr(labels, "ndim", 0) != 2 or getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return None
    return pad(labels, (0, 1), value=IGNORED)[:, 1:] if shifted is None else shifted


def _calling_trainer() -> Any:
    """The Trainer that runs the callback: transformers gives it everything but that."""
    from transformers import Trainer

    frame: Any = sys._getframe()
    while not isinstance(frame.f_locals.get("self"), Trainer):
        frame = frame.f_back
    return frame.f_locals["self"]


def hf_callback(recorder: Any, *, finish: bool = True) -> Any:
    """For `transformers.Trainer(callbacks=[...])`: attaches, scores, resumes, finishes, and saves recorder.pt in checkpoints.

    finish=False: call `rec.finish()` after the training, as where `rec.rescore` comes before it.
    """
    from transformers import TrainerCallback

    def path(args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE_FILE

    class RecorderCallback(TrainerCallback):
        end: Callable[[], None] | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.attach(model=kwargs["model"], optimizer=kwargs["optimizer"])
            if state.global_step:
                if not path(args, state).exists():
                    why = f"the checkpoint has no {STATE_FILE}: it was saved without this callback"
                    raise ConfigError(f"rec.hf_callback(): {why}")
                recorder.load_state_dict(torch.load(path(args, state), weights_only=True))
            if self.end:
                self.end()  # a beginning that failed, as with auto_find_batch_size
            self.end = watch(recorder, _calling_trainer())

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            saved = recorder.state_dict()  # of all ranks
            if state.is_world_process_zero:
                torch.save(saved, path(args, state))

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self.end:
                self.end()
            try:
                if finish:
                    recorder.finish()
            except PrequentialError as error:  # somebody's training ends well without a record
                if recorder.strict:
                    raise
                logging.getLogger(__name__).warning("%s", error)

    return RecorderCallback()


def lightning_callback(recorder: Any) -> Any:
    """For `lightning.Trainer(callbacks=[...])`: attaches, saves in checkpoints, resumes and finishes; `training_step` scores."""
    from lightning.pytorch import Callback

    class RecorderCallback(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            model = pl_module if recorder._model is None else None
            recorder.attach(model=model, optimizer=trainer.optimizers[0])

        def state_dict(self) -> dict[str, Any]:
            return recorder.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            recorder.load_state_dict(state_dict)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            recorder.finish()

    return RecorderCallback()
