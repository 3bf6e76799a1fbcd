"""`Recorder`: the code length of a training run, from within the loop of somebody else.

The online loss of a training run, each row scored before the step that uses it, is a prequential code length. The recorder sums
it, counts rows that were seen before apart, and looks for the mistakes that make such a sum worthless:

    a step without a score        the optimiser stepped, and nothing was scored since its last step
    rows that were not scored     the model was called to train on them, but they were not scored before the step
    a look ahead                  every `audit_every` steps: with another future, earlier predictions of a drawn row move

Scoring queues small sums on the device. Every FLUSH_STEPS steps they are read, and all ranks exchange them. So a mistake in the
values (NaN, an id outside the vocabulary) is reported up to FLUSH_STEPS steps later, with its step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prequential.arguments import check_arguments
from prequential.errors import ConfigError, InvalidDistributionError, LawError
from prequential.evaluation.runs import PathLike, Run
from prequential.recording.causal import look_ahead, named_ids, token_ids
from prequential.recording.heldout import Sums, add_documents, checked_name, heldout_record, joined
from prequential.recording.queued import impossible_value, on_host, unscored_rows
from prequential.recording.ranks import Ranks
from prequential.recording.rows import SeenRows, hash_rows, mix
from prequential.recording.run import TrainingRun
from prequential.recording.score import FIELDS, Scored, plain_nll, row_sums
from prequential.recording.totals import UNITS_PER_NAT, Totals, sums_record
from prequential.recording.units import Units, units_of
from prequential.records.forms import REPORTED
from prequential.records.schema import append_record
from prequential.watch.health import Finding

if TYPE_CHECKING:
    import torch

FLUSH_STEPS = 64
REPEATS = ("exclude", "include")
STATE_VERSION = 1
MAX_FAULTS = 100


class Recorder:
    """Records the code length of a training run that it does not control: *reported by a training loop*, not proved.

    folder: where `finish` makes a run folder. name: of the learner; arguments: its hyperparameters, as JSON values (`seed` groups
    runs in comparisons). data: a name for what it learns.

    tokenizer: that of the ids: of transformers, tokenizers or tiktoken, or a tokenizer.json; it says how many bytes an id stands
    for. Ids of special tokens are never scored. units: "bytes" for ids 0 to 255 that are bytes, or the bytes of each id, (V,).

    model, optimizer: a step of the optimiser ends a step of the recorder; the calls of the model in training are checked against
    the scores. Either may come later (`attach`). repeats: whether rows seen before count: "exclude" or "include".
    process_group: of torch.distributed; by default the default group, if there is one. audit_every: steps between two checks for
    a look ahead; 0: none. strict: a mistake raises LawError; otherwise it is recorded, and the page shows it.

    Raises ConfigError for wrong arguments.

    Examples:
        >>> import tempfile, torch, prequential
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch._C.Generator object at ...>
        >>> model = torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Linear(16, 256))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> folder = tempfile.mkdtemp()
        >>> rec = prequential.Recorder(folder, name="bigrams", units="bytes", model=model, optimizer=optimizer)
        >>> rows = torch.tensor(list(b"to be or not to be, " * 8)).view(4, 40)
        >>> for row in rows:
        ...     x, y = row[None, :-1], row[None, 1:]
        ...     logits = model(x)
        ...     rec.score(logits=logits, targets=y, inputs=x)
        ...     torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()).backward()
        ...     optimizer.step()
        >>> run = rec.finish()
        >>> run.record["n_tokens"], run.record["reported"]["repeated"]["n_rows"], run.record["coding"]
        (39, 3, 'reported by a training loop')
    """

    def __init__(
        self,
        folder: PathLike = "runs",
        *,
        name: str,
        model: "torch.nn.Module | None" = None,
        optimizer: Any = None,
        tokenizer: Any = None,
        units: Any = None,
        repeats: str = "exclude",
        process_group: Any = None,
        audit_every: int = 1000,
        strict: bool = True,
        arguments: Mapping[str, Any] | None = None,
        data: str | None = None,
    ) -> None:
        check_arguments(folder=folder)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"Recorder: name is {name!r}: give a text")
        if repeats not in REPEATS:
            raise ConfigError(f"Recorder: repeats is {repeats!r}: give 'exclude' or 'include'")
        if not isinstance(audit_every, int) or audit_every < 0:
            raise ConfigError(f"Recorder: audit_every is {audit_every!r}: give a number of steps, or 0")
        self.folder, self.name, self.data = folder, name, data
        self.arguments, self.strict = dict(arguments or {}), strict
        self.units: Units = units_of(tokenizer, units)
        self.faults: list[str] = []
        self.n_audits, self.n_steps = 0, 0
        self.totals = Totals(counts_repeats=repeats == "include")
        self.seen = SeenRows()
        self.scored = Scored()
        self.wall_s = 0.0
        self._ranks, self._audit_every = Ranks(process_group), audit_every
        self._forward: Callable[[Any, Any], Any] | None = None
        self._pending: list[tuple[int, torch.Tensor]] = []
        self._forwarded: list[tuple[int, torch.Tensor]] = []
        self._n_scores = 0  # since the last step
        self._inputs: torch.Tensor | None = None  # of the last call in training
        self._hooks: list[Any] = []
        self._model: torch.nn.Module | None = None
        self._started_s: float | None = None
        self._heldout: dict[str, tuple[int, Sums]] = {}  # by name: the step of the last scores, and their sums
        self._run: Run | None = None
        self.attach(model=model, optimizer=optimizer)

    def attach(
        self,
        *,
        model: "torch.nn.Module | None" = None,
        optimizer: Any = None,
        forward: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        """Hooks into a model or an optimiser that was not there before.

        forward: a function of model and inputs that gives logits (rows, columns, V), if `model(inputs)` does not.
        """
        if forward is not None:
            self._forward = forward
        if optimizer is not None:
            optimizer = getattr(optimizer, "optimizer", optimizer)  # of accelerate
            if not hasattr(optimizer, "register_step_post_hook"):
                raise ConfigError(
                    "Recorder: optimizer is not one of torch: leave it out, and call rec.step() after each step"
                )
            self._hooks.append(optimizer.register_step_post_hook(lambda *_: self.step()))
        if model is not None:
            import torch

            self._model = model
            self._hooks.append(model.register_forward_pre_hook(torch.compiler.disable(self._saw), with_kwargs=True))

    @property
    def has_model(self) -> bool:
        """Whether the calls of a model are checked."""
        return self._model is not None

    def n_parameters(self) -> int | None:
        """Of the model that it knows."""
        return sum(p.numel() for p in self._model.parameters()) if self._model is not None else None

    # ---- in the loop

    def score(
        self,
        *,
        targets: "torch.Tensor",
        logits: "torch.Tensor | None" = None,
        nll: "torch.Tensor | None" = None,
        inputs: "torch.Tensor | None" = None,
        indices: "torch.Tensor | None" = None,
    ) -> None:
        """Scores rows, before the step that learns from them.

        targets (rows, columns): ids; -100 is not scored. logits (rows, columns, V) or flat, or nll (rows, columns) in nats, of
        each target. inputs (rows, columns): what the model read; they tell rows of equal targets apart. indices (rows,): numbers
        of the rows in the data; then only a row of the same number is a repeated one.

        Nothing is synchronised. Raises ConfigError for shapes that do not fit, and what `step` raises.
        """
        if self._run is not None:
            raise ConfigError("rec.score(): this recorder has finished")
        if self._started_s is None:
            self._started_s = time.perf_counter()
        if inputs is None and self._inputs is not None and len(self._inputs) == len(targets):
            inputs = self._inputs
        nats, targets = plain_nll(logits, nll, targets, self.units)
        self.scored.see(logits if logits is not None else nll, self._model)
        self._pending.append(
            (self.n_steps, row_sums(nats, targets, token_ids(inputs, len(targets)), indices, self.units))
        )
        self._n_scores += 1

    def step(self) -> None:
        """Ends a step. A given optimiser calls it. Raises LawError or InvalidDistributionError for a mistake, if `strict`."""
        if self._run is not None:
            return
        if not self._n_scores:
            self._fault(
                f"step {self.n_steps + 1}: the optimiser stepped without a score: call rec.score() before each step"
            )
        self.n_steps, self._n_scores = self.n_steps + 1, 0
        if self._audit_every and self._inputs is not None and (self.n_steps - 1) % self._audit_every == 0:
            self._audit(self._inputs)
        self._inputs = None
        if self.n_steps % FLUSH_STEPS == 0:
            self._flush()

    def _saw(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called: in training, it must be for rows that are scored before the next step."""
        import torch

        if not (model.training and torch.is_grad_enabled()):
            return
        ids = named_ids(args, kwargs)
        if ids is not None:
            self._inputs = ids.detach()
            self._forwarded.append((self.n_steps, hash_rows(self._inputs, "inputs")))

    def _audit(self, inputs: "torch.Tensor") -> None:
        assert self._model is not None
        self.n_audits += 1
        found = look_ahead(self._model, inputs, self._forward, self.n_steps, self.units.n_symbols)
        if found:
            self._fault(f"step {self.n_steps}: {found}")

    def _fault(self, message: str) -> None:
        if self.strict:
            raise LawError(message)
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(message)

    def heldout(
        self,
        name: str,
        *,
        targets: "torch.Tensor",
        documents: Sequence[Any],
        logits: "torch.Tensor | None" = None,
        nll: "torch.Tensor | None" = None,
    ) -> None:
        """Scores held-out rows, which the loop does not learn from. documents (rows,): the name or number of each row's document.

        Rows of one step are one evaluation; a later step begins a new one. `finish` writes the last one of each name to
        heldout-NAME.jsonl in the run folder. `prequential compare A/heldout-NAME.jsonl B/heldout-NAME.jsonl` gives the paired
        difference over documents. Raises ConfigError, InvalidDistributionError.
        """
        step, sums = self._heldout.get(checked_name(name), (-1, {}))
        if step != self.n_steps:
            sums = {}
        nats, targets = plain_nll(logits, nll, targets, self.units)
        add_documents(sums, documents, nats, targets, self.units)
        self._heldout[name] = (self.n_steps, sums)

    # ---- reading the device

    def _flush(self) -> None:
        """Reads what is queued, exchanges it between ranks, and adds it up. All ranks call it after the same step."""
        mine = on_host(self._pending, FIELDS), on_host(self._forwarded, ("inputs",))
        self._pending, self._forwarded = [], []
        parts = self._ranks.gathered(mine)
        rows, called = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        if wrong := impossible_value(rows, self.units.n_symbols):
            raise InvalidDistributionError(wrong)
        for fault in unscored_rows(called, rows):
            self._fault(fault)
        keys = mix(rows["key"].view(np.uint64))
        own = keys % np.uint64(self._ranks.n) == self._ranks.own
        is_new = np.zeros(len(rows), np.int64)
        order = np.argsort(rows["step"], kind="stable")  # the first of equal rows is that of the earliest step
        own = order[own[order]]
        is_new[own] = self.seen.add(keys[own])
        self._add(rows, np.sum(self._ranks.gathered(is_new), axis=0) > 0)

    def _add(self, rows: np.ndarray, is_new: np.ndarray) -> None:
        units = np.rint(rows["nats"].view(np.float64) * UNITS_PER_NAT).astype(np.int64)
        sums = np.stack([np.ones(len(rows), np.int64), rows["tokens"], rows["bytes"], units], axis=1)
        contents = mix(rows["targets"].view(np.uint64))
        first = self.totals.steps
        for step in range(first, self.n_steps + 1):
            here = rows["step"] == step
            fresh, again = here & is_new, here & ~is_new
            part = np.stack([sums[fresh].sum(0), sums[again].sum(0)])
            self.totals.add(part, int(contents[fresh].sum(dtype=np.uint64)), contents[here])
            if step < self.n_steps:
                self.totals.end_step()

    # ---- the end, and interruptions

    def finish(self) -> Run:
        """Writes an ordinary run folder and returns the run. All ranks call it; the first one writes.

        Raises ConfigError if nothing was scored, OutputError if the folder cannot be written.
        """
        if self._run is None:
            self._flush()
            for hook in self._hooks:
                hook.remove()
            self.wall_s += time.perf_counter() - self._started_s if self._started_s is not None else 0.0
            is_writer = self._ranks.own == 0
            run = self._training_run().save(self.folder, is_writer=is_writer)
            for name, (step, sums) in self._heldout.items():
                documents = joined(self._ranks.gathered(sums))
                record = heldout_record(name, documents, step, run.record["config"], run.record["environment"])
                if is_writer:
                    append_record(run.path / f"heldout-{name}.jsonl", record)
            self._run = run
        return self._run

    def _training_run(self) -> TrainingRun:
        totals = self.totals
        _, n_tokens, n_bytes, _ = totals.counted
        if not n_bytes:
            raise ConfigError("rec.finish(): nothing was scored")
        corpus = {
            "name": self.data or "training data",
            "kind": "rows",
            "n_bytes": n_bytes,
            "blake2b": totals.rows_digest(),
        }
        return TrainingRun(
            coding=REPORTED,
            corpus=corpus,
            learner={"name": self.name, "arguments": self.arguments, "n_symbols": self.units.n_symbols},
            reported=self._reported(),
            n_tokens=n_tokens,
            curve=totals.curve(),
            findings=tuple(Finding(kind="law", position=0, block=0, message=f, cause="program") for f in self.faults),
            wall_s=self.wall_s,
            device=self.scored.device,
        )

    def _reported(self) -> dict[str, Any]:
        """The part of the record that only training runs have."""
        totals, units = self.totals, self.units
        return {
            "source": "training loop",
            "n_steps": self.n_steps,
            "n_ranks": self._ranks.n,
            "n_rows": totals.new[0] + totals.repeated[0],
            "counts_repeats": totals.counts_repeats,
            "new": sums_record(totals.new),
            "repeated": sums_record(totals.repeated),
            "all_rows_kept": not self.seen.is_full,
            "order": totals.order.hex(),
            "tokenizer": {"name": units.name, "n_symbols": units.n_symbols, "digest": units.digest},
            "n_audits": self.n_audits,
            "logits": self.scored.dtype,
            "is_training": self.scored.is_training,
            "dropout": self.scored.dropout,
            "n_parameters": self.n_parameters(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs, to be saved beside the model: tensors, numbers, texts, and lists of them.

        All ranks call it. Each gets the complete state, so that it can be loaded by another number of ranks.
        """
        import torch

        self._flush()
        wall_s = self.wall_s + (time.perf_counter() - self._started_s if self._started_s is not None else 0.0)
        keys = np.concatenate(self._ranks.gathered(self.seen.keys()))
        return {
            "version": STATE_VERSION,
            "units": self.units.digest,
            "n_steps": self.n_steps,
            "totals": self.totals.state(),
            "seen": torch.from_numpy(np.sort(keys).view(np.int64)),
            "faults": list(self.faults),
            "n_audits": self.n_audits,
            "wall_s": wall_s,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` gave. Raises ConfigError for something else, or for another vocabulary."""
        if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
            raise ConfigError("rec.load_state_dict(): this is not the state of a Recorder of this version")
        if state["units"] != self.units.digest:
            raise ConfigError("rec.load_state_dict(): the state is of another tokenizer, or of other units")
        counts_repeats = self.totals.counts_repeats
        try:
            keys = state["seen"].cpu().numpy().view(np.uint64)
            self.totals = Totals.of_state(dict(state["totals"]))
            self.n_steps, self.n_audits = int(state["n_steps"]), int(state["n_audits"])
            self.faults, self.wall_s = list(state["faults"]), float(state["wall_s"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"rec.load_state_dict(): the state is damaged: {error}") from error
        if self.totals.counts_repeats != counts_repeats:
            raise ConfigError(
                "rec.load_state_dict(): the state counts repeated rows in another way: give the same `repeats`"
            )
        self.seen = SeenRows(keys[keys % np.uint64(self._ranks.n) == self._ranks.own], self.seen.max_rows)
        self._pending, self._forwarded, self._n_scores, self._inputs, self._started_s = [], [], 0, None, None

    # ---- other people's loops

    def loss_func(self, loss: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """For `transformers.Trainer(compute_loss_func=...)`: scores each batch, and returns its loss (recording/hooks.py)."""
        from prequential.recording.hooks import loss_func

        return loss_func(self, loss)

    def hf_callback(self) -> Any:
        """For `transformers.Trainer(callbacks=[...])`: attaches, saves beside checkpoints, resumes, and finishes."""
        from prequential.recording.hooks import hf_callback

        return hf_callback(self)

    def lightning_callback(self) -> Any:
        """For `lightning.Trainer(callbacks=[...])`: attaches, saves in checkpoints, resumes, and finishes."""
        from prequential.recording.hooks import lightning_callback

        return lightning_callback(self)
