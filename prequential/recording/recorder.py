"""`Recorder`: the code length of a training run, from within the loop of somebody else.

The online loss of a training run, each row scored before the step that uses it, is a prequential code length. The recorder sums
it, counts rows that were seen before apart, and looks for the mistakes that make such a sum worthless (docs/RECORDING.md).

Scoring queues small sums on the device. After 1, 2, 4, ... and every FLUSH_STEPS steps the account (account.py) reads the
complete steps, and all ranks exchange them. So a mistake in the values (NaN, an id outside the vocabulary) is reported then.
"""

import copy
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from prequential.arguments import check_arguments
from prequential.errors import CausalityError, ConfigError, OutputError
from prequential.evaluation.curves import curve_table
from prequential.evaluation.runs import PathLike, Run
from prequential.files import check_can_write
from prequential.online.source import CorpusLike
from prequential.recording.account import Account, Ranks
from prequential.recording.causal import Call, CallHook, look_ahead, rows_of
from prequential.recording.heldout import Sums, add_documents, heldout_record, joined
from prequential.recording.hooks import hf_callback, lightning_callback
from prequential.recording.run import Observed, PartialRun, check_texts, reported_record, save_run
from prequential.recording.score import IGNORED, n_parameters, scores_of, units_of
from prequential.recording.text import Text

FLUSH_STEPS = 64
STATE_VERSION = 6
MAX_FAULTS = 100


class Recorder:
    """Records the code length of a training run that it does not control: *reported by a training loop*, not proved.

    folder: where `finish` makes a run folder. name: of the learner; arguments: its hyperparameters, as JSON values (`seed` groups
    runs in comparisons). data: a name for what it learns.

    tokenizer: of transformers, tokenizers or tiktoken, or a tokenizer.json; it says how many bytes an id stands for. Special ids
    are never scored. units: "bytes" for ids 0 to 255 that are bytes, or the bytes of each id, (V,).

    model, optimizer: a step of the optimiser ends a step of the recorder; the calls of the model in training are checked against
    the scores. Either may come later (`attach`). process_group: of torch.distributed; by default the default group, if there is
    one. audit_every: steps between two checks for a look ahead; 0: none. strict: for tests; a mistake raises CausalityError, even
    in `optimizer.step()`. Otherwise it is recorded, the first one is logged as a warning, and the page shows all. ignore_index:
    targets that are not scored, like -100. text: the documents that the rows are of, as `evaluate` takes them: runs of one text
    under two tokenizers, or packed in two ways, can then be compared.

    Raises ConfigError for wrong arguments.

    Examples:
        >>> import tempfile, torch, prequential
        >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
        <torch._C.Generator object at ...>
        >>> model = torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Linear(16, 256))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> about = {"name": "bigrams", "units": "bytes", "model": model, "optimizer": optimizer}
        >>> rec = prequential.Recorder(tempfile.mkdtemp(), **about)
        >>> for row in torch.tensor(list(b"to be or not to be, " * 8)).view(4, 40):
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
        model: torch.nn.Module | None = None,
        optimizer: Any = None,
        tokenizer: Any = None,
        units: Any = None,
        process_group: Any = None,
        audit_every: int = 1000,
        strict: bool = False,
        arguments: Mapping[str, Any] | None = None,
        data: str | None = None,
        ignore_index: int = IGNORED,
        text: CorpusLike | None = None,
    ) -> None:
        check_arguments(folder=folder, name=name, audit_every=audit_every, ignore_index=ignore_index)
        check_can_write(folder)
        check_texts(name, data, dict(arguments or {}))
        self._folder, self._name, self._data, self._arguments = folder, name, data, dict(arguments or {})
        self.strict: bool = strict
        self._units = units_of(tokenizer, units)
        self.faults: list[str] = []
        self.observed: Observed = Observed()
        self._ranks, self._audit_every, self._ignored = Ranks(process_group), audit_every, ignore_index
        self._account: Account = Account(self._ranks, self._units, None if text is None else Text.of(text))
        self._rescored: Account = Account(self._ranks, self._units)
        self._rescored_at: int | None = None  # step
        self._forward: Callable[[Any, Any], Any] | None = None
        self._new_faults: list[str] = []  # which the other ranks do not know yet
        self._has_warned = False
        self._n_scores = 0  # since the last step
        self._last_stepped: Any = None
        self._call: Call | None = None  # the last one in training, since the last step
        self._targets: torch.Tensor | None = None  # of the last score
        self._hooks: list[tuple[Any, Any]] = []  # the model and the optimisers, and what ends the hook in each
        self._model: torch.nn.Module | None = None
        self._since_s: float | None = None  # what is not in wall_s yet
        self._heldout: dict[str, tuple[int, Sums]] = {}  # by name: the step of the last scores, and their sums
        self._run: Run | None = None
        self._partial = PartialRun(folder)
        self.attach(model=model, optimizer=optimizer)

    def attach(
        self,
        *,
        model: torch.nn.Module | None = None,
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
                raise ConfigError("Recorder: optimizer is not one of torch: leave it out, and call rec.step() instead")
            if not any(optimizer is each for each, _ in self._hooks):
                hook = optimizer.register_step_post_hook(lambda *_: self._stepped(optimizer))
                self._hooks.append((optimizer, hook))
        if model is not None and model is not self._model:
            if self._model is not None:
                raise ConfigError("Recorder: it has another model already")
            self._model = model
            hook = model.register_forward_pre_hook(CallHook(model, self._saw), with_kwargs=True)
            self._hooks.append((model, hook))

    # ---- in the loop

    def score(
        self,
        *,
        targets: torch.Tensor,
        logits: torch.Tensor | None = None,
        nll: torch.Tensor | None = None,
        inputs: torch.Tensor | None = None,
        indices: torch.Tensor | None = None,
        groups: Sequence[Any] | torch.Tensor | None = None,
    ) -> None:
        """Scores rows, before the step that learns from them.

        targets (rows, columns): ids, or `ignore_index`. logits (rows, columns, V) or flat, or nll (rows, columns) in nats, of
        each target. inputs (rows, columns): what the model read; they tell rows of equal targets apart. indices (rows,): numbers
        of the rows in the data; then only a row of the same number is a repeated one. groups (rows,): names or numbers from 0 of
        the sources of rows, such as languages; the record has the cost of each.

        Nothing is synchronised. Raises ConfigError for shapes that do not fit, and what `step` raises.
        """
        if self._run is not None:
            raise ConfigError("rec.score(): this recorder has finished")
        self._since_s = self._since_s or time.perf_counter()
        rows = {"targets": targets, "logits": logits, "nll": nll, "inputs": inputs, "indices": indices}
        scores = scores_of(self._units, self._ignored, **rows, codes=self._account.codes(groups))
        self.observed.see(nll if logits is None else logits, self._model)
        self.observed.numbered |= indices is not None
        self._account.add_scores(self.observed.n_steps, scores)
        self._n_scores, self._targets = self._n_scores + 1, scores.targets

    def rescore(self, *, targets: torch.Tensor, **scored: Any) -> None:
        """Scores rows of the training again, under the final weights, before `finish`; arguments as of `score`, but for groups.

        Where all rows come that counted, the record has the excess: the code length while it learned less that under the trained
        model. Call the model in evaluation mode. Raises ConfigError.
        """
        if self._run is not None:
            raise ConfigError("rec.rescore(): this recorder has finished")
        if self._model is not None and self._model.training:
            self._fault("rec.rescore(): the model is in training mode: call model.eval() before")
        self._rescored_at = self.observed.n_steps
        self._rescored.add_scores(0, scores_of(self._units, self._ignored, targets=targets, **scored))

    def metrics(self) -> dict[str, float]:
        """Figures so far, for a logger, as of the last reading: at most FLUSH_STEPS steps ago. Nothing is synchronised."""
        totals = self._account.totals
        return totals.metrics() | {"prequential/mistakes": len(self.faults) + len(totals.not_of_the_data())}

    def step(self) -> None:
        """Ends a step. A given optimiser calls it. Raises only if `strict`."""
        if self._run is not None:
            return
        self.observed.n_steps += 1
        n_steps, has_scores, self._n_scores = self.observed.n_steps, self._n_scores > 0, 0
        if not has_scores:
            self._fault(f"step {n_steps}: the optimiser stepped without a score: call rec.score() before each step")
        if self._call:
            self._audit(self._call)
        elif self._model is not None and _is_due(n_steps, self._audit_every):
            self.observed.not_audited = "the model was called without ids"
        self._call = None
        if _is_due(n_steps, FLUSH_STEPS):
            self._read()

    def _stepped(self, optimizer: Any) -> None:
        """An optimiser has stepped. Another one that steps after it, without scores between them, belongs to the same step."""
        if self._n_scores or self._last_stepped in (None, id(optimizer)):
            self._last_stepped = id(optimizer)
            self.step()

    def _saw(self, ids: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called in training: for rows that must be scored before the next step. An audit copies the last call."""
        self._account.add_call(self.observed.n_steps, rows_of(ids))
        self._call = Call.copied(ids, args, kwargs) if _is_due(self.observed.n_steps + 1, self._audit_every) else None

    def _audit(self, call: Call) -> None:
        try:
            mistake = look_ahead(self._model, call, self._targets, self._forward, self.observed.n_steps)
        except Exception as error:  # the check must not end somebody's training
            why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            self.observed.not_audited = why[:200]
            return
        self.observed.n_audits += 1
        if mistake:
            self._fault(f"step {self.observed.n_steps}: {mistake}")

    def _fault(self, message: str) -> None:
        """A mistake: it stays in the record. If strict, it raises, on all ranks at once if there are several."""
        self._new_faults.append(message)
        if self._ranks.n == 1:
            self._settle_faults([self._new_faults])

    def _read(self) -> None:
        """Adds up the complete steps. All ranks call it after the same step, and learn of each other's mistakes."""
        if self._since_s is not None:
            now_s = time.perf_counter()
            self.observed.wall_s, self._since_s = self.observed.wall_s + now_s - self._since_s, now_s
        mistakes = self._account.read(self.observed.n_steps)
        totals, n_steps = self._account.totals, self.observed.n_steps
        if self._ranks.own == 0 and n_steps >= FLUSH_STEPS and (n_bytes := totals.new[2]):
            try:  # for `runs list` after a crash
                self._partial.append(name=self._name, n_steps=n_steps, n_bytes=n_bytes, code_bits=totals.code_bits)
            except OutputError as error:  # at its end, the run is written nevertheless
                if str(error) not in self.faults:
                    self._new_faults.append(str(error))
        self._settle_faults([*self._ranks.gathered(list(self._new_faults)), mistakes])

    def _settle_faults(self, parts: Sequence[list[str]]) -> None:
        new, self._new_faults = [fault for part in parts for fault in part], []
        wrong = [*new, *self._account.totals.not_of_the_data()]
        if wrong and not self._has_warned and self._ranks.own == 0:
            self._has_warned = True
            logging.getLogger(__name__).warning("the recorder of %r goes on, but: %s", self._name, wrong[0])
        self.faults += new[: max(0, MAX_FAULTS - len(self.faults))]
        if new and self.strict:
            raise CausalityError(new[0])

    def heldout(
        self,
        name: str,
        *,
        targets: torch.Tensor,
        documents: Sequence[Any],
        logits: torch.Tensor | None = None,
        nll: torch.Tensor | None = None,
        inputs: torch.Tensor | None = None,
    ) -> None:
        """Scores held-out rows, which the loop does not learn from. documents (rows,): the name or number of each row's document.

        Rows of one step are one evaluation; a later step begins a new one. A row of a document counts once: one of equal targets
        and, if given, inputs (rows, columns), is the same. `finish` writes the last one of each name to
        heldout-NAME.jsonl in the run folder. `prequential compare A/heldout-NAME.jsonl B/heldout-NAME.jsonl` gives the paired
        difference over documents. Rows with values that no model gives are left out: a mistake. Raises ConfigError.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):  # of a file
            raise ConfigError(f"rec.heldout(): the name is {name!r}: give letters, digits, dots, dashes or underscores")
        n_steps = self.observed.n_steps
        step, sums = self._heldout.get(name, (n_steps, {}))
        if step != n_steps:
            sums = {}
        scores = scores_of(self._units, self._ignored, targets=targets, logits=logits, nll=nll, inputs=inputs)
        n_wrong, n_others = add_documents(sums, documents, scores, self._units)
        self._heldout[name] = (n_steps, sums)
        at = f"rec.heldout({name!r}), step {n_steps}"
        if n_wrong:
            self._fault(f"{at}: {n_wrong} rows of impossible values are left out")
        if n_others:
            self._fault(f"{at}: {n_others} rows have the targets of other rows, and are left out: give inputs=")

    def _heldout_of_all(self) -> dict[str, tuple[int, Sums]]:
        """The last scores of each name, of all ranks. All ranks call it."""
        parts, whole = self._ranks.gathered(self._heldout), {}
        for name in sorted({name for part in parts for name in part}):
            step = max(part[name][0] for part in parts if name in part)
            whole[name] = step, joined(part[name][1] for part in parts if name in part and part[name][0] == step)
        return whole

    # ---- the end, and interruptions

    def finish(self) -> Run:
        """Writes an ordinary run folder and returns the run. All ranks call it; the first one writes.

        Raises ConfigError if nothing was scored, OutputError if the folder cannot be written. If `strict`, it writes the run,
        and then raises what `step` raises.
        """
        if self._run is None:
            if self._account.n_after_last_step and not self.observed.n_steps:
                raise ConfigError("rec.finish(): no step was seen: give optimizer=, or call rec.step() after each step")
            try:
                self._read()
            except CausalityError:
                with suppress(ConfigError):
                    self._run = self._saved()
                raise
            self._run = self._saved()
        return self._run

    def _saved(self) -> Run:
        record, curves = self._record(), self._account.totals.curves()
        for _, hook in self._hooks:
            hook.remove()
        scored = {name: (step, sums) for name, (step, sums) in self._heldout_of_all().items() if sums}
        others = {f"heldout-{n}.jsonl": heldout_record(n, sums, step, record) for n, (step, sums) in scored.items()}
        if self._ranks.own:
            return Run(Path(self._folder) / "elsewhere", record, curve_table(curves))
        return save_run(self._folder, record, curves, others, partial=self._partial)

    def _record(self) -> dict[str, Any]:
        rescored_at = [at for at in self._ranks.gathered(self._rescored_at) if at is not None]
        if rescored_at:
            if min(rescored_at) < self.observed.n_steps:
                self.faults.append("rec.rescore(): steps followed: these weights are not the final ones")
            self.faults += [f"rec.rescore(): {mistake}" for mistake in self._rescored.read(1)]
        about = {
            "learner": {"name": self._name, "arguments": self._arguments},
            "source": "training loop",
            "n_ranks": self._ranks.n,
            "n_rows_after_last_step": sum(self._ranks.gathered(self._account.n_after_last_step)),
            "n_parameters": None if self._model is None else n_parameters(self._model),
            **asdict(self.observed),
        }
        rescored = self._rescored.totals if rescored_at else None
        return reported_record(self._account, rescored, self.faults, self._data, **about)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs, to be saved beside the model: tensors, numbers, texts, and lists of them.

        It holds the complete steps. A step in progress, whose gradient no checkpoint has, is made again.
        All ranks call it. Each gets the complete state, so that it can be loaded by another number of ranks.
        """
        self._read()
        return {
            "version": STATE_VERSION,
            "units": self._units.digest,
            "run": [self._name, self._ranks.gathered(self._partial.name)[0]],
            **self._account.state(),
            "observed": asdict(self.observed),
            "faults": list(self.faults),
            "heldout": self._heldout_of_all(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` gave. Raises ConfigError for something else, or for another vocabulary."""
        if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
            raise ConfigError("rec.load_state_dict(): this is not the state of a Recorder of this version")
        if state.get("units") != self._units.digest:
            raise ConfigError("rec.load_state_dict(): the state is of another tokenizer, or of other units")
        try:
            observed, (name, draft), faults = Observed(**state["observed"]), state["run"], list(state["faults"])
            heldout, draft = copy.deepcopy(state["heldout"]), Path(draft).name
            self._account.load(state)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError("rec.load_state_dict(): the state is damaged") from error
        self.observed, self.faults, self._heldout = observed, faults, heldout
        if name == self._name:  # the draft of the run that ended
            self._partial.name = draft
        self._new_faults, self._n_scores = [], 0
        self._call, self._targets, self._since_s = None, None, None

    hf_callback = hf_callback
    lightning_callback = lightning_callback


def _is_due(step: int, every: int) -> bool:
    """Whether the step is 1, 2, 4, ... up to `every`, or a multiple of it. 0: never."""
    return every > 0 and (step % every == 0 or (step < every and step & (step - 1) == 0))
