"""What an evaluation measures: a learner of this program, or one of somebody else; and what bytes cost without an archive."""

import copy
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from prequential_codecs.archive_header import GIVEN, OTHER
from prequential_codecs.bit_coder import SCORE, BitCoder

from prequential.errors import CheckpointError, ConfigError, PrequentialError
from prequential.learners.adapted import AdaptedLearner, is_coded
from prequential.learners.distributions import id_pieces, named_failures, spread_bits
from prequential.learners.given import Given, conditioned_learner, describe
from prequential.learners.protocol import OnlineModel, Tokenizer
from prequential.model.config import N_SYMBOLS, Config, ScheduleConfig, blocks
from prequential.online.coding import OnProgress, Progress
from prequential.online.loop import Learner, run
from prequential.online.runtime import Runtime


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnerSpec:
    """A learner that can be made afresh, equal each time.

    description: JSON values that name it, the `config` of header and record. config: of a learner of this program. tokenizer: of
    a learner of ids. given: what it has read before. is_coded: whether an archive is written, not only the code length computed.
    resumes: whether an interrupted run can be resumed.
    """

    description: dict[str, Any]
    schedule: ScheduleConfig
    make: Callable[[], Learner]
    config: Config | None = None
    tokenizer: Tokenizer | None = None
    given: Given | None = None
    is_coded: bool = True
    resumes: bool = True


def own_spec(config: Config | None, runtime: Runtime, given: Given | None = None) -> LearnerSpec:
    """A learner of this program, which has read what is given. config: None for a stored model. Raises as given.py."""
    make: Callable[[], Learner]
    if given is None:
        assert config is not None
        runtime.check(config)
        description, make = config.to_dict(), partial(runtime.learner, config)
    else:
        description = describe(config, given, runtime)
        make = lambda: conditioned_learner(config, given, runtime, description[GIVEN])[0]  # noqa: E731
    config = Config.from_dict({name: value for name, value in description.items() if name != GIVEN})
    return LearnerSpec(description=description, schedule=config.schedule, make=make, config=config, given=given)


def other_spec(
    learner: OnlineModel | Callable[[], OnlineModel],
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    source: Callable[[], str | None] = lambda: None,
) -> LearnerSpec:
    """Somebody else's learner: an object, which is copied before it learns, or a function or class that makes one.

    name: in records; by default its class. arguments: what the factory was given, as JSON values. source: gives a digest of the
    learner's code. It is called after the learner was made once, and so has imported all that it needs.
    Raises ConfigError if it does not offer what learners/protocol.py says, or cannot be made or copied.
    """
    make_model = _factory(learner)
    model = make_model()
    adapted = AdaptedLearner(model, 2)
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None and model.n_symbols != N_SYMBOLS:
        raise ConfigError(f"without a tokenizer a learner predicts {N_SYMBOLS} symbols (bytes), not {model.n_symbols}")
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        raise ConfigError("the learner's tokenizer needs the methods encode and decode")
    n_symbols, secret, first = model.n_symbols, secrets.randbits(62), adapted.digest()

    def make() -> Learner:
        made = AdaptedLearner(make_model(), n_symbols, secret=secret)
        if made.digest() != first:
            raise ConfigError("the second learner is not like the first: give a factory that makes equal learners")
        return made

    described = {"name": name or type(model).__name__, "arguments": dict(arguments or {}), "n_symbols": n_symbols}
    return LearnerSpec(
        description={OTHER: described | {"run_symbols": adapted.schedule.segment_symbols, "source": source()}},
        schedule=adapted.schedule,
        make=make,
        tokenizer=tokenizer,
        is_coded=is_coded(model),
        resumes=adapted.resumes,
    )


def _factory(learner: OnlineModel | Callable[[], OnlineModel]) -> Callable[[], OnlineModel]:
    """A function that makes the learner. Of an object it makes copies of the object as it is now."""
    if isinstance(learner, type) or not hasattr(learner, "predict"):
        if not callable(learner):
            name = type(learner).__name__
            raise ConfigError(f"a {name} is not a learner: it has no method 'predict' (docs/LEARNERS.md)")
        return named_failures("the learner cannot be made")(cast("Callable[[], OnlineModel]", learner))

    def copied() -> OnlineModel:
        try:
            with named_failures("the learner cannot be copied"):
                return cast(OnlineModel, copy.deepcopy(learner))
        except PrequentialError as error:
            raise ConfigError(f"{error}; give a function that makes it") from error

    first = copied()  # the object may learn elsewhere
    return lambda: copy.deepcopy(first)


def vocabulary_bytes(spec: LearnerSpec) -> int:
    """What the vocabulary of the learner's tokenizer takes: the bytes of every id, compressed by zlib. 0 without a tokenizer."""
    if not spec.tokenizer:
        return 0
    pieces = []
    for i in range(spec.description[OTHER]["n_symbols"]):
        try:
            piece = spec.tokenizer.decode([i])
        except Exception:  # an id that it does not use
            piece = b""
        pieces.append(len(piece).to_bytes(4, "little") + piece)
    return len(zlib.compress(b"".join(pieces), 9))


# ---- code lengths of symbols that are known


class Earlier(NamedTuple):
    """What an interrupted run has read: so many ids and bytes, and a function that gives the bits (n,) of a slice of bytes."""

    n_ids: int
    n_bytes: int
    bits: Callable[[slice], np.ndarray]


def byte_costs(
    symbols: np.ndarray, spec: LearnerSpec, learner: Learner | None = None, earlier: Earlier | None = None
) -> Iterator[np.ndarray]:
    """The costs (n,) in bits of the next bytes of `symbols` (N,) uint8, after each run of the learner; whole units of 2**-22.

    An id's cost is divided among its bytes. earlier: of the first ids, which the learner has read already, and what they cost.
    Raises what the learner and its tokenizer raise.
    """
    learner, coder = learner or spec.make(), BitCoder(SCORE)
    n_earlier, n_ids, n_bytes, n_paid = earlier.n_ids if earlier else 0, 0, 0, 0
    unpaid: list[np.ndarray] = []
    widths: list[np.ndarray] = []

    def paid() -> np.ndarray:
        if earlier and n_ids <= n_earlier:
            return earlier.bits(slice(n_paid, n_bytes))
        return spread_bits(np.concatenate(unpaid), np.concatenate(widths))

    for ids, run_widths in _runs(symbols, spec):
        if n_ids >= n_earlier:
            unpaid += (bits for _, bits in run(learner, coder, slice(n_ids, n_ids + len(ids)), ids))
        n_ids, n_bytes = n_ids + len(ids), n_bytes + int(run_widths.sum())
        widths.append(run_widths)
        if earlier and n_ids - len(ids) < n_earlier <= n_ids and (n_ids, n_bytes) != earlier[:2]:
            raise CheckpointError("the checkpoint does not fit the corpus: its ids end within a run")
        # If these ids stand for no byte, the next byte takes their cost. The last byte also takes the cost of ids after it.
        if n_bytes not in (n_paid, len(symbols)):
            yield paid()
            n_paid = n_bytes
            unpaid, widths = [], []
    if widths:
        yield paid()


def _runs(symbols: np.ndarray, spec: LearnerSpec) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The symbols (n,) of each run, ids or bytes, and the bytes (n,) int64 that each stands for."""
    n = spec.schedule.segment_symbols
    if spec.tokenizer is None:
        for start in range(0, len(symbols), n):
            part = symbols[start : start + n].copy()
            yield part, np.ones(len(part), np.int64)
        return
    ids = widths = np.zeros(0, np.int64)
    for piece in id_pieces(symbols, spec.tokenizer, spec.description[OTHER]["n_symbols"]):
        ids, widths = np.concatenate((ids, piece[0])), np.concatenate((widths, piece[1]))
        whole = len(ids) // n * n
        for start in range(0, whole, n):
            yield ids[start : start + n], widths[start : start + n]
        ids, widths = ids[whole:], widths[whole:]
    if len(ids):
        yield ids, widths


def code_lengths(learner: Learner, symbols: np.ndarray, start: int = 0) -> Iterator[np.ndarray]:
    """The costs (n,) in bits of the next symbols (N,) uint8 under a learner, after each segment. It learns as in `compress`.

    start: the position of the first one, from which the lengths of segments follow.
    """
    for block in blocks(len(symbols), learner.schedule):
        where = slice(start + block.start, start + block.stop)
        for _, bits in run(learner, BitCoder(SCORE), where, np.array(symbols[block])):
            yield bits


def reported(
    costs: Iterable[np.ndarray], symbols: np.ndarray, on_progress: OnProgress, after: int = 0
) -> Iterator[np.ndarray]:
    """The same costs, of the next bytes of `symbols` each, after on_progress was called with the totals so far.

    after: so many bytes are not reported, because an interrupted run has reported them.
    """
    done = Progress()
    for bits in costs:
        stop = done.n_bytes + len(bits)
        code_bits, segment = done.code_bits + float(bits.sum()), symbols[done.n_bytes : stop]
        done = Progress(n_bytes=stop, code_bits=code_bits, segment=segment, segment_bits=bits)
        if stop > after:
            on_progress(done, len(symbols))
        yield bits
