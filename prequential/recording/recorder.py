"""`Recorder`: the code length of a training run, from within the loop of somebody else.

The online loss of a training run, each row scored before the step that uses it, is a prequential code length. The recorder sums
it, counts rows that were seen before apart, and looks for the mistakes that make such a sum worthless:

    a step without a score        the optimiser stepped, and nothing was scored since its last step
    rows that were not scored     the model was called to train on them, but they were not scored before the step
    targets that are the inputs   nobody shifted them
    a look ahead                  at steps 1, 2, 4, ... and every `audit_every`: with another future, earlier predictions move

Scoring queues small sums on the device. Every FLUSH_STEPS steps the account (account.py) reads the complete steps, and all ranks
exchange them. So a mistake in the values (NaN, an id outside the vocabulary) is reported up to FLUSH_STEPS steps later. A mistake
is recorded, the first one is logged as a warning, and the training goes on; only `strict` raises.
"""

import copy
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prequential.arguments import check_arguments
from prequential.errors import CausalityError, ConfigError, OutputError
from prequential.evaluation.runs import PathLike, Run
from prequential.files import check_can_write
from prequential.online.health import Finding
from prequential.recording.account import Account, Ranks
from prequential.recording.heldout import Sums, add_documents, checked_name, heldout_record, joined
from prequential.recording.run import PartialRun, TrainingRun, check_texts
from prequential.recording.score import IGNORED, Scored, Units, n_parameters, scores_of, units_of
from prequential.recording.totals import sums_record
from prequential.records import REPORTED

if TYPE_CHECKING:
    import torch

    from prequential.recording.causal import Call

FLUSH_STEPS = 64
REPEATS = ("exclude", "include")
STATE_VERSION = 2
MAX_FAULTS = 100


class Recorder:
    """Records the code length of a training run that it does not control: *reported by a training loop*, not proved.

    folder: where `finish` makes a run folder. name: of the learner; arguments: its hyperparameters, as JSON values (`seed` groups
    runs in comparisons). data: a name for what it learns.

    tokenizer: of transformers, tokenizers or tiktoken, or a tokenizer.json; it says how many bytes an id stands for. Special ids
    are never scored. units: "bytes" for ids 0 to 255 that are bytes, or the bytes of each id, (V,).

    model, optimizer: a step of the optimiser ends a step of the recorder; the calls of the model in training are checked against
    the scores. Either may come later (`attach`). repeats: whether rows seen before count: "exclude" or "include".
    process_group: of torch.distributed; by default the default group, if there is one. audit_every: steps between two checks for
    a look ahead; 0: none. strict: for tests; a mistake raises CausalityError, even in `optimizer.step()`. Otherwise it is
    recorded, the first one is logged as a warning, and the page shows all. ignore_index: targets that are not scored, like -100.

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

    folder: PathLike
    name: str
    data: str | None
    arguments: dict[str, Any]
    strict: bool
    n_audits: int
    n_steps: int
    not_audited: str
    wall_s: float
    numbered: bool

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
        strict: bool = False,
        arguments: Mapping[str, Any] | None = None,
        data: str | None = None,
        ignore_index: int = IGNORED,
    ) -> None:
        check_arguments(folder=folder)
        check_can_write(folder)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"Recorder: name is {name!r}: give a text")
        if repeats not in REPEATS:
            raise ConfigError(f"Recorder: repeats is {repeats!r}: give 'exclude' or 'include'")
        if not isinstance(audit_every, int) or audit_every < 0:
            raise ConfigError(f"Recorder: audit_every is {audit_every!r}: give a number of steps, or 0")
        if type(ignore_index) is not int:
            raise ConfigError(f"Recorder: ignore_index is {ignore_index!r}: give a whole number")
        self.folder, self.name, self.data = folder, name, data
        self.arguments, self.strict = dict(arguments or {}), strict
        check_texts(self.name, self.data, self.arguments)
        self.units: Units = units_of(tokenizer, units)
        self.faults: list[str] = []
        self.n_audits, self.n_steps = 0, 0
        self.not_audited = ""  # why the last check for a look ahead could not be made
        self.scored: Scored = Scored()
        self.wall_s = 0.0
        self.numbered = False  # whether rows were told apart by their numbers in the data
        self._ranks, self._audit_every = Ranks(process_group), audit_every
        self._account = Account(self._ranks, self.units, counts_repeats=repeats == "include")
        self._forward: Callable[[Any, Any], Any] | None = None
        self._new_faults: list[str] = []  # which the other ranks do not know yet
        self._n_scores = 0  # since the last step
        self._last_stepped: Any = None
        self._call: Call | None = None  # the last one in training, since the last step
        self._targets: torch.Tensor | None = None  # of the last score
        self._hooks: list[Any] = []
        self._optimizers: list[Any] = []
        self._model: torch.nn.Module | None = None
        self._started_s: float | None = None
        self._heldout: dict[str, tuple[int, Sums]] = {}  # by name: the step of the last scores, and their sums
        self._run: Run | None = None
        self._has_warned, self._ignored = False, ignore_index
        self._partial = PartialRun(folder)
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
            if not any(optimizer is each for each in self._optimizers):
                self._optimizers.append(optimizer)
                self._hooks.append(optimizer.register_step_post_hook(lambda *_: self._stepped(optimizer)))
        if model is not None and model is not self._model:
            from prequential.recording.causal import CallHook

            if self._model is not None:
                raise ConfigError("Recorder: it has another model already")
            self._model = model
            self._hooks.append(model.register_forward_pre_hook(CallHook(model, self._saw), with_kwargs=True))

    @property
    def has_model(self) -> bool:
        """Whether the calls of a model are checked."""
        return self._model is not None

    def n_parameters(self) -> int | None:
        """Of the model that it knows."""
        return n_parameters(self._model) if self._model is not None else None

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

        targets (rows, columns): ids, or `ignore_index`. logits (rows, columns, V) or flat, or nll (rows, columns) in nats, of
        each target. inputs (rows, columns): what the model read; they tell rows of equal targets apart. indices (rows,): numbers
        of the rows in the data; then only a row of the same number is a repeated one.

        Nothing is synchronised. Raises ConfigError for shapes that do not fit, and what `step` raises.
        """
        if self._run is not None:
            raise ConfigError("rec.score(): this recorder has finished")
        if self._started_s is None:
            self._started_s = time.perf_counter()
        scores = scores_of(logits, nll, targets, self.units, inputs, indices, self._ignored)
        self.scored.see(logits if logits is not None else nll, self._model)
        self.numbered |= indices is not None
        self._account.add_scores(self.n_steps, scores)
        self._n_scores, self._targets = self._n_scores + 1, scores.targets

    def step(self) -> None:
        """Ends a step. A given optimiser calls it. Raises only if `strict`."""
        if self._run is not None:
            return
        self.n_steps += 1
        has_scores, self._n_scores = self._n_scores > 0, 0
        if not has_scores:
            self._fault(
                f"step {self.n_steps}: the optimiser stepped without a score: call rec.score() before each step"
            )
        if self._call:
            self._audit(self._call)
        elif self._model is not None and self._audit_every and _is_due(self.n_steps, self._audit_every):
            self.not_audited = "the model was called without ids"
        self._call = None
        if self.n_steps % FLUSH_STEPS == 0:
            self._read()

    def _stepped(self, optimizer: Any) -> None:
        """An optimiser has stepped. Another one that steps after it, without scores between them, belongs to the same step."""
        if self._n_scores or self._last_stepped in (None, id(optimizer)):
            self._last_stepped = id(optimizer)
            self.step()

    def _saw(self, ids: "torch.Tensor", copied: "Callable[[], Call]") -> None:
        """The model is called in training: for rows that must be scored before the next step. An audit copies the last call."""
        self._account.add_call(self.n_steps, ids)
        is_due = self._audit_every and _is_due(self.n_steps + 1, self._audit_every)
        self._call = copied() if is_due else None

    def _audit(self, call: "Call") -> None:
        from prequential.recording.causal import look_ahead

        targets = self._targets if self._targets is not None and len(self._targets) == len(call.ids) else None
        try:
            found = look_ahead(self._model, call, targets, self._forward, self.n_steps)
        except Exception as error:  # the check must not end somebody's training
            self.not_audited = (str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}")[:200]
            return
        self.n_audits += 1
        if found:
            self._fault(f"step {self.n_steps}: {found}")

    def _fault(self, message: str) -> None:
        """A mistake: it stays in the record. If strict, it raises, on all ranks at once if there are several."""
        self._new_faults.append(message)
        if self._ranks.n == 1:
            self._settle_faults([self._new_faults])

    def _read(self) -> None:
        """Adds up the complete steps. All ranks call it after the same step, and learn of each other's mistakes."""
        found = self._account.read(self.n_steps)
        self._keep()
        self._settle_faults([*self._ranks.gathered(list(self._new_faults)), found])

    def _keep(self) -> None:
        """Writes what the run has so far, for `runs list` after a crash."""
        totals, n_bytes = self._account.totals, self._account.totals.counted[2]
        if self._ranks.own or not n_bytes:
            return
        try:
            self._partial.append(name=self.name, n_steps=self.n_steps, n_bytes=n_bytes, code_bits=totals.code_bits)
        except OutputError as error:  # at its end, the run is written nevertheless
            if str(error) not in self.faults:
                self._new_faults.append(str(error))

    def _settle_faults(self, parts: Sequence[list[str]]) -> None:
        new, self._new_faults = [fault for part in parts for fault in part], []
        wrong = [*new, *self._account.totals.not_of_the_data()]
        if wrong and not self._has_warned and self._ranks.own == 0:
            self._has_warned = True
            logging.getLogger(__name__).warning("the recorder of %r goes on, but: %s", self.name, wrong[0])
        self.faults += new[: max(0, MAX_FAULTS - len(self.faults))]
        if new and self.strict:
            raise CausalityError(new[0])

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
        difference over documents. Rows with values that no model gives are left out: a mistake. Raises ConfigError.
        """
        step, sums = self._heldout.get(checked_name(name), (-1, {}))
        if step != self.n_steps:
            sums = {}
        scores = scores_of(logits, nll, targets, self.units, ignored=self._ignored)
        n_wrong = add_documents(sums, documents, scores, self.units)
        self._heldout[name] = (self.n_steps, sums)
        if n_wrong:
            self._fault(f"rec.heldout({name!r}), step {self.n_steps}: {n_wrong} rows of impossible values are left out")

    # ---- the end, and interruptions

    def finish(self) -> Run:
        """Writes an ordinary run folder and returns the run. All ranks call it; the first one writes.

        Raises ConfigError if nothing was scored, OutputError if the folder cannot be written. If `strict`, it writes the run,
        and then raises what `step` raises.
        """
        if self._run is None:
            if self._account.n_after_last_step and not self.n_steps:
                raise ConfigError("rec.finish(): no step was seen: give optimizer=, or call rec.step() after each step")
            try:
                self._read()
            except CausalityError:
                with suppress(ConfigError):
                    self._save()
                raise
            return self._save()
        return self._run

    def _save(self) -> Run:
        run = self._training_run()
        for hook in self._hooks:
            hook.remove()
        others, is_writer = self._heldout_records(run), self._ranks.own == 0
        self._run = run.save(self.folder, others, partial=self._partial, is_writer=is_writer)
        return self._run

    def _heldout_records(self, run: TrainingRun) -> dict[str, dict[str, Any]]:
        """The record of each set of documents, of all ranks, by the name of its file."""
        record, parts = run.record(), self._ranks.gathered(self._heldout)
        found = {}
        for name in sorted({name for part in parts for name in part}):
            step = max(part[name][0] for part in parts if name in part)
            documents = joined(part[name][1] for part in parts if name in part and part[name][0] == step)
            if documents:
                made = heldout_record(name, documents, step, record["config"], record["environment"])
                found[f"heldout-{name}.jsonl"] = made
        return found

    def _wall_s(self) -> float:
        return self.wall_s + (time.perf_counter() - self._started_s if self._started_s is not None else 0.0)

    def _training_run(self) -> TrainingRun:
        totals = self._account.totals
        _, n_tokens, n_bytes, _ = totals.counted
        if not n_bytes:
            raise ConfigError("; ".join(["rec.finish(): nothing was scored", *self.faults[:1]]))
        corpus = {
            "name": self.data or "training data",
            "kind": "rows",
            "n_bytes": n_bytes,
            "blake2b": totals.rows_digest(),
        }
        found = [("law", "program", fault) for fault in self.faults]
        found += [("repeated", "data", message) for message in totals.not_of_the_data()]
        return TrainingRun(
            coding=REPORTED,
            corpus=corpus,
            learner={"name": self.name, "arguments": self.arguments, "n_symbols": self.units.n_symbols},
            reported=self._reported(),
            n_tokens=n_tokens,
            curve=totals.curve(),
            findings=tuple(
                Finding(kind=kind, position=0, block=0, message=message, cause=cause) for kind, cause, message in found
            ),
            wall_s=self._wall_s(),
            device=self.scored.device,
        )

    def _reported(self) -> dict[str, Any]:
        """The part of the record that only training runs have."""
        totals, units = self._account.totals, self.units
        return {
            "source": "training loop",
            "n_steps": self.n_steps,
            "n_ranks": self._ranks.n,
            "n_rows": totals.new[0] + totals.repeated[0] + sum(totals.impossible.values()),
            "counts_repeats": totals.counts_repeats,
            "new": sums_record(totals.new),
            "repeated": sums_record(totals.repeated),
            **totals.impossible,
            "n_grams": totals.n_grams,
            "n_grams_seen": totals.n_grams_seen,
            "n_rows_after_last_step": sum(self._ranks.gathered(self._account.n_after_last_step)),
            "all_rows_kept": totals.all_rows_kept,
            "numbered": self.numbered,
            "n_checked_steps": self._account.n_checked_steps,
            "order": totals.order,
            "tokenizer": {"name": units.name, "n_symbols": units.n_symbols, "digest": units.digest},
            "n_audits": self.n_audits,
            "not_audited": self.not_audited,
            "logits": self.scored.dtype,
            "is_training": self.scored.is_training,
            "dropout": self.scored.dropout,
            "n_parameters": self.n_parameters(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs, to be saved beside the model: tensors, numbers, texts, and lists of them.

        It holds the complete steps. A step in progress, whose gradient no checkpoint has, is made again.

        All ranks call it. Each gets the complete state, so that it can be loaded by another number of ranks.
        """
        self._read()
        state = {
            "version": STATE_VERSION,
            "units": self.units.digest,
            "run": [self.name, self._ranks.gathered(self._partial.name)[0]],
            "n_steps": self.n_steps,
            **self._account.state(),
            "faults": list(self.faults),
            "n_audits": self.n_audits,
            "not_audited": self.not_audited,
            "numbered": self.numbered,
            "heldout": copy.deepcopy(self._heldout),
            "wall_s": self._wall_s(),
        }
        return state | {"digest": _digest(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` gave. Raises ConfigError for something else, or for another vocabulary."""
        is_whole = False
        with suppress(Exception):  # a damaged state may hold anything
            is_whole = state["version"] == STATE_VERSION and state["digest"] == _digest(state)
        if not is_whole:
            raise ConfigError(
                "rec.load_state_dict(): this is not the state of a Recorder of this version, or it is damaged"
            )
        if state["units"] != self.units.digest:
            raise ConfigError("rec.load_state_dict(): the state is of another tokenizer, or of other units")
        if state["totals"]["counts_repeats"] != self._account.totals.counts_repeats:
            raise ConfigError(
                "rec.load_state_dict(): the state counts repeated rows in another way: give the same `repeats`"
            )
        self._account.load(state)
        for name in ("n_steps", "n_audits", "not_audited", "numbered", "wall_s"):
            setattr(self, name, state[name])
        self.faults, self._heldout = list(state["faults"]), copy.deepcopy(state["heldout"])
        self._partial.before = state["run"][1] if state["run"][0] == self.name else ""
        self._new_faults, self._n_scores = [], 0
        self._call, self._targets, self._started_s = None, None, None

    # ---- other people's loops

    def hf_callback(self) -> Any:
        """For `transformers.Trainer(callbacks=[...])`: attaches, saves beside checkpoints, resumes, and finishes."""
        from prequential.recording.hooks import hf_callback

        return hf_callback(self)

    def lightning_callback(self) -> Any:
        """For `lightning.Trainer(callbacks=[...])`: attaches, saves in checkpoints, resumes, and finishes."""
        from prequential.recording.hooks import lightning_callback

        return lightning_callback(self)


def _digest(state: Mapping[str, Any]) -> str:
    """Of all values of a state but this."""
    plain = {name: value for name, value in state.items() if name not in ("seen", "digest")}
    text = json.dumps([plain, str(state["seen"].dtype), state["seen"].shape], sort_keys=True)
    return hashlib.blake2b(text.encode() + state["seen"].cpu().numpy().tobytes(), digest_size=32).hexdigest()


def _is_due(step: int, every: int) -> bool:
    """Whether the step is 1, 2, 4, ... up to `every`, or a multiple of it."""
    return step % every == 0 or (step < every and step & (step - 1) == 0)
