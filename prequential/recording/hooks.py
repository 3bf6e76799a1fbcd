"""A Recorder in the loops of transformers and Lightning. Its own methods call these functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError, MissingDependencyError
from prequential.recording.score import IGNORED

STATE_FILE = "recorder.pt"


def loss_func(recorder: Any, loss: Callable[..., Any] | None) -> Callable[..., Any]:
    """A `compute_loss_func` for a causal language model: it scores a batch in training, and returns the loss.

    loss: another loss of (outputs, labels, num_items_in_batch=...); by default the mean cross entropy. Labels are shifted
    here, as the models of transformers do.
    """
    import torch

    def compute(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
        if labels is None:
            raise ConfigError("rec.loss_func(): the batch has no labels: use a data collator that makes them")
        logits, targets = outputs["logits"][:, :-1], labels[:, 1:].to(outputs["logits"].device)
        nll = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), reduction="none", ignore_index=IGNORED
        )
        if torch.is_grad_enabled():  # an evaluation is not part of the training
            recorder.score(nll=nll.view(targets.shape), targets=targets, inputs=recorder.called_with())
        if loss is not None:
            return loss(outputs, labels, num_items_in_batch=num_items_in_batch)
        return nll.sum() / ((targets != IGNORED).sum() if num_items_in_batch is None else num_items_in_batch)

    return compute


def hf_callback(recorder: Any) -> Any:
    """A TrainerCallback. The state is saved as recorder.pt in each checkpoint. Raises MissingDependencyError."""
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise MissingDependencyError(
            "rec.hf_callback() needs transformers: pip install 'prequential[transformers]'"
        ) from error
    import torch

    def path(args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / STATE_FILE

    class RecorderCallback(TrainerCallback):
        """Attaches to model and optimiser, saves beside checkpoints, resumes, and finishes."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.attach(model=kwargs["model"], optimizer=kwargs["optimizer"])
            if state.global_step:
                if not path(args, state).exists():
                    raise ConfigError(
                        f"rec.hf_callback(): the checkpoint has no {STATE_FILE}: it was saved without this callback"
                    )
                recorder.load_state_dict(torch.load(path(args, state), weights_only=True))

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            saved = recorder.state_dict()  # of all ranks
            if state.is_world_process_zero:
                torch.save(saved, path(args, state))

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.finish()

    return RecorderCallback()


def lightning_callback(recorder: Any) -> Any:
    """A Callback of Lightning, with its state in each checkpoint. `training_step` scores. Raises MissingDependencyError."""
    try:
        from lightning.pytorch import Callback
    except ImportError as error:
        raise MissingDependencyError("rec.lightning_callback() needs Lightning: pip install lightning") from error

    class RecorderCallback(Callback):
        """Attaches to the optimiser, saves in checkpoints, resumes, and finishes."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            recorder.attach(model=None if recorder.has_model else pl_module, optimizer=trainer.optimizers[0])

        def state_dict(self) -> dict[str, Any]:
            return recorder.state_dict()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            recorder.load_state_dict(state_dict)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            recorder.finish()

    return RecorderCallback()
