"""The state of a run between two segments in one file, so that the run can resume after any interruption.

A safetensors file, complete or absent; JSON metadata identifies the run. A stranger's checkpoint runs no code, and fills only
tensors that the run's own configuration has made.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from prequential_codecs.archive_header import Header
from prequential_codecs.bit_coder import N_WORDS, STATE_SIZE, WORDS_PER_SYMBOL

from prequential.errors import CheckpointError
from prequential.exact.arrays import digest
from prequential.files import delete_incomplete, open_own_file, sync_folder
from prequential.files.work_folder import NEW_CHECKPOINT
from prequential.machine.process import HeldSignals, held
from prequential.online.loop import Learner
from prequential.online.tensor_file import TensorFile, open_tensors, write_packed

VERSION = 2
COST = 1 / 40  # of the run's time that may go into checkpoints
FIRST_AFTER_S = 60.0
BYTES_PER_S = 200e6  # assumed speed of the disk, until a checkpoint has been timed
LEARNER = "learner."  # before the names of its tensors
SCORE = "score"  # the direction of a run that writes no archive; its symbols may be ids, not bytes
METADATA = "prequential"
FIELDS = ("totals", "n_open", "open_bits", "written")  # of Saved that are no arrays
CODER_ARRAYS = {name: np.dtype(kind) for name, kind in {"coder": "i8", "words": "i4", "symbols": "u1"}.items()}
TOTALS: dict[str, type[int] | type[float]] = {
    "n_bytes": int, "code_bits": float, "archive_bytes": int, "header_bytes": int, "payload_bytes": int, "n_blocks": int,
    "n_raw_blocks": int,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What a run needs, in addition to the learner, to resume between two segments.

    totals: of the completed blocks, as in Progress. n_open: coded symbols of the open block, of ideal code length open_bits.
    symbols (n_open,): those of a decoder. written: BLAKE2b of the output of the completed blocks.
    """

    totals: dict[str, Any]
    n_open: int = 0
    open_bits: float = 0.0
    written: str = ""
    coder: np.ndarray = field(default_factory=lambda: np.zeros(STATE_SIZE, np.uint64))
    words: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    symbols: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))


class Checkpoints:
    """When and where a run is saved, and from what it resumes. Saving takes at most the share COST of the time."""

    def __init__(
        self, path: Path, partial: Path | None = None, *, resume: bool, sync: Callable[[], object] = lambda: None
    ) -> None:
        """partial: the output so far. resume: continue from both. sync: called before each checkpoint, for other files."""
        self.path, self.partial, self.resume, self._sync = path, partial, resume, sync
        self._due_s, self._is_first, self._signals = time.monotonic() + FIRST_AFTER_S, True, HeldSignals()
        self.spent_s = 0.0  # in saving

    @contextmanager
    def holding_signals(self) -> Iterator[None]:
        """While the body runs, Ctrl-C and termination wait until the run has been saved; a second signal acts at once."""
        with held() as self._signals:
            yield

    def load(self, direction: str, header: Header, learner: Learner) -> Saved | None:
        """The state of the interrupted run, with the learner's part loaded into `learner`; None to start from the beginning.

        direction: "compress", "decompress", "train" or SCORE. Raises CheckpointError.
        """
        if not self.resume:
            return None
        if not self.path.exists():
            logging.getLogger(__name__).warning("nothing was saved of an interrupted run: this one starts anew")
            return None
        open_own_file(self.path, create=False).close()  # raises OutputError for a link
        return read(self.path, identity(direction, header), learner)

    def save_if_due(self, direction: str, header: Header, learner: Learner, saved: Callable[[], Saved]) -> None:
        """Saves a run between two segments if due, or if a signal waits, which is then delivered. A failure is only a warning."""
        start_s, ends = time.monotonic(), self._signals.pending is not None
        if self._is_first:
            self._is_first = False
            n_bytes = sum(array.nbytes for array in learner.state().values())
            self._due_s = max(self._due_s, start_s + n_bytes / BYTES_PER_S / COST)
        if ends or start_s >= self._due_s:
            try:
                self._sync()
                write(self.path, identity(direction, header), learner, saved())
            except OSError as error:
                then = "" if ends else "; the run continues without it"
                logging.getLogger(__name__).warning("cannot save a checkpoint: %s%s", error.strerror, then)
            took_s = time.monotonic() - start_s
            self.spent_s += took_s
            self._due_s = start_s + took_s + max(FIRST_AFTER_S, took_s / COST)  # after a full disk, too
        self._signals.deliver()


def write(path: Path, expected: Mapping[str, Any], learner: Learner, saved: Saved) -> None:
    """Replaces the checkpoint at `path` durably: there is a complete one at any time. Raises OSError."""
    arrays = {LEARNER + name: array for name, array in learner.state().items()}
    arrays |= {"coder": saved.coder.view(np.int64), "words": saved.words.view(np.int32), "symbols": saved.symbols}
    about = {"version": VERSION, **expected, **{name: getattr(saved, name) for name in FIELDS}}
    text = json.dumps({**about, "digest": _digest(arrays, about)}, sort_keys=True)
    draft = path.with_name(NEW_CHECKPOINT)
    delete_incomplete(draft)
    try:
        write_packed(draft, arrays, {METADATA: text})
        draft.replace(path)
    finally:
        delete_incomplete(draft)  # after success it has another name
    sync_folder(path.parent)


def read(path: Path, expected: Mapping[str, Any], learner: Learner) -> Saved:
    """Reads what `write` saved. Raises CheckpointError for a damaged file or one of another run; discard the learner then."""
    with open_tensors(path) as file:
        about = _described(path, file.metadata, expected)
        types = {name.removeprefix(LEARNER): each for name, each in file.types.items() if name.startswith(LEARNER)}
        grows = getattr(learner, "state_like", None)  # the state of somebody else's learner
        own = {LEARNER + name: array for name, array in (grows(types) if grows else learner.state()).items()}
        most = max(STATE_SIZE, WORDS_PER_SYMBOL * learner.schedule.block_symbols)
        arrays = read_arrays(file, own, CODER_ARRAYS, most=most)
    if about.pop("digest", None) != _digest(arrays, about):
        raise CheckpointError(f"{str(path)!r} is damaged: its digest does not match its contents")
    try:
        saved = _saved(about, arrays, expected["n_bytes"])
        learner.load_state({name.removeprefix(LEARNER): arrays[name] for name in own})
        # read before the first byte (learners/given.py)
        n_before = expected["config"].get("given", {}).get("n_symbols", 0)
        if expected["direction"] != SCORE and learner.n_symbols != n_before + saved.totals["n_bytes"] + saved.n_open:
            raise ValueError("its counts disagree")
    except ValueError as error:
        raise CheckpointError(f"{str(path)!r} is not from a run of this program: {error}") from error
    return saved


def read_arrays(
    file: TensorFile, own: Mapping[str, np.ndarray], others: Mapping[str, np.dtype] | None = None, *, most: int = 0
) -> dict[str, np.ndarray]:
    """All tensors of a file: those like `own` in name, type and shape, and others of these types, of at most `most` values each.

    Raises ValueError, before any is read, if the file holds anything else. The caller checks the values.
    """
    dtypes = {name: array.dtype for name, array in own.items()} | dict(others or {})
    if file.types.keys() != dtypes.keys():
        raise ValueError("it holds other tensors")
    for name, (dtype, shape) in file.types.items():
        if dtype != dtypes[name] or (shape != own[name].shape if name in own else math.prod(shape) > most):
            raise ValueError(f"{name} has another shape or type")
    return {name: file.read(name) for name in file.types}


def _saved(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], n_bytes: int) -> Saved:
    """The part of the file that is not the learner's, for an original of n_bytes. Raises ValueError if no run can save it."""
    fields: dict[str, Any] = {name: about.get(name) for name in FIELDS}
    totals, n_open, open_bits, written = fields.values()
    if not isinstance(totals, dict) or {name: type(value) for name, value in totals.items()} != TOTALS:
        raise ValueError("totals of other names or types")
    if type(n_open) is not int or type(open_bits) is not float or not isinstance(written, str):
        raise ValueError("fields of other types")
    in_range = all(0 <= value < 1 << 48 for value in totals.values()) and totals["n_blocks"] <= totals["n_bytes"]
    if not in_range or not 0 <= n_open <= n_bytes - totals["n_bytes"]:
        raise ValueError("counts out of range")
    coder, words, symbols = (arrays[name] for name in CODER_ARRAYS)
    if coder.shape != (STATE_SIZE,) or words.ndim != 1 or symbols.ndim != 1 or len(symbols) not in (0, n_open):
        raise ValueError("a coder of another shape")
    if len(words) > WORDS_PER_SYMBOL * n_open or not 0 <= coder[N_WORDS] <= WORDS_PER_SYMBOL * n_open + 2:
        raise ValueError("a coder with too many words")
    coder, words = coder.view(np.uint64), words.view(np.uint32)
    return Saved(**fields, coder=coder, words=words, symbols=symbols)


def _described(path: Path, metadata: Mapping[str, str], expected: Mapping[str, Any]) -> dict[str, Any]:
    try:
        about = json.loads(metadata[METADATA])
        if (version := about["version"]) != VERSION:
            raise CheckpointError(f"{str(path)!r} is a checkpoint of version {version!r}; this program reads {VERSION}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{str(path)!r} is not a checkpoint of this program") from error
    for name, value in expected.items():
        if about.get(name) != value:
            raise CheckpointError(f"{str(path)!r} belongs to another run: {MISMATCHES[name]}")
    return dict(about)


def check_identity(path: Path, expected: Mapping[str, Any]) -> None:
    """Raises CheckpointError if the file is not a checkpoint of the expected run, as far as its description shows."""
    with open_tensors(path) as file:
        _described(path, file.metadata, expected)


MISMATCHES = {
    "direction": "it was saved by another command",
    "blake2b": "it is of another original",
    "n_bytes": "it is of another original",
    "corpus": "the corpus has another name",
    "config": "the learner has another configuration",
}


def identity(direction: str, header: Header) -> dict[str, Any]:
    """The values that must agree for a run to resume from a checkpoint."""
    config, corpus = json.loads(json.dumps([header.config, header.corpus]))
    original = {"n_bytes": header.n_bytes, "blake2b": header.blake2b.hex()}
    return {"direction": direction, **original, "config": config, "corpus": corpus}


def _digest(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> str:
    text = json.dumps(about, sort_keys=True).encode()
    return hashlib.blake2b(digest(arrays, 32) + text, digest_size=16).hexdigest()
