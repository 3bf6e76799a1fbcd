"""A Recorder in the loops of transformers and Lightning. Its own methods call these functions."""

import sys
import warnings
from pathlib import Path
from typing import Any

from prequential.errors import ConfigError, MissingDependencyError, PrequentialError
from prequential.recording.score import IGNORED

STATE_FILE = "recorder.pt"
NO_LABELS = "the batch has no labels (rows, columns): use a data collator that makes them"
NO_LOGITS = (
    "the model returned no logits for the labels, as with a fused loss: turn it off (use_liger_kernel=False), or call "
    "rec.score(nll=..., targets=..., inputs=...) in compute_loss"
)


class Watch:
    """Scores each batch that a Trainer trains on, and lets its loss pass through untouched. A mistake is told once.

    The targets are read before `Trainer.compute_loss`, which may take them out of the batch; the logits are those that the model
    returns within it. Where compute_loss of the user calls `rec.score` itself, nothing more is scored.
    """

    def __init__(self, recorder: Any, trainer: Any) -> None:
        self.recorder, self.trainer, self.whole = recorder, trainer, trainer.compute_loss
        self.targets: Any = None  # of the batch whose loss is computed now
        self.found: tuple[Any, Any] | None = None  # its logits and ids
        self.has_told = False
        self.hook = trainer.model_wrapped.register_forward_hook(self.saw, with_kwargs=True)
        trainer.compute_loss = self.compute_loss

    def end(self) -> None:
        """Leaves the Trainer as it was."""
        self.hook.remove()
        self.trainer.compute_loss = self.whole

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the Trainer's own method gives."""
        import torch

        if not (model.training and torch.is_grad_enabled()):  # an evaluation is no training
            return self.whole(model, inputs, *args, **kwargs)
        self.targets, self.found, n_scores = _targets(inputs), None, self.recorder._n_scores
        loss = self.whole(model, inputs, *args, **kwargs)
        if self.recorder._n_scores == n_scores:
            self.score()
        self.targets = self.found = None
        return loss

    def saw(self, model: Any, args: Any, kwargs: Any, returned: Any) -> None:
        """A forward hook. The first call that gives logits for the targets is the one."""
        from prequential.recording.causal import logits_of, named_ids

        if self.targets is not None and self.found is None:
            logits = logits_of(returned, self.targets.shape)
            self.found = (logits.detach(), named_ids(args, kwargs)) if logits is not None else None

    def score(self) -> None:
        """Scores what was found; what is missing stays in the record."""
        try:
            if self.targets is None or self.found is None:
                raise ConfigError(NO_LABELS if self.targets is None else NO_LOGITS)
            logits, ids = self.found
            self.recorder.score(logits=logits, targets=self.targets.to(logits.device), inputs=ids)
        except ConfigError as error:
            if not self.has_told:
                warnings.warn(f"rec.hf_callback(): {error}", stacklevel=4)
                self.recorder._fault(f"step {self.recorder.n_steps + 1}: {error}")
            self.has_told = True


def _targets(inputs: Any) -> Any:
    """The targets (rows, columns) of a batch, shifted as causal language models of transformers shift their labels."""
    from torch.nn.functional import pad

    if (shifted := inputs.get("shift_labels")) is not None:
        return shifted
    labels = inputs.get("labels")
    return pad(labels, (0, 1), value=IGNORED)[:, 1:] if getattr(labels, "ndim", 0) == 2 else None


def _calling_trainer() -> Any:
    """The Trainer that runs the callback: transformers gives it everything but that."""
    from transformers import Trainer

    frame: Any = sys._getframe()
    while frame and not isinstance(frame.f_locals.get("self"), Trainer):
        frame = frame.f_back
    if not frame:
        raise ConfigError("rec.hf_callback(): no Trainer of transformers calls it")
    return frame.f_locals["self"]


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
        """Attaches to model and optimiser, scores, saves beside checkpoints, resumes, and finishes."""

        watch: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.attach(model=kwargs["model"], optimizer=kwargs["optimizer"])
            if state.global_step:
                if not path(args, state).exists():
                    raise ConfigError(
                        f"rec.hf_callback(): the checkpoint has no {STATE_FILE}: it was saved without this callback"
                    )
                recorder.load_state_dict(torch.load(path(args, state), weights_only=True))
            if self.watch:
                self.watch.end()  # of a beginning that failed, as with auto_find_batch_size
            self.watch = Watch(recorder, _calling_trainer())

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            saved = recorder.state_dict()  # of all ranks
            if state.is_world_process_zero:
                torch.save(saved, path(args, state))

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.watch.end()
            try:
                recorder.finish()
            except PrequentialError as error:  # somebody's training ends well without a record
                if recorder.strict:
                    raise
                warnings.warn(str(error), stacklevel=2)

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
