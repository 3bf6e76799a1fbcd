"""The two directions of the loop: `compress` writes an archive, `decompress` reads one. Both yield their progress.

Each block holds a digest of the learner's state after it: a decoder whose state differs stops there instead of writing noise.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader, ArchiveWriter, Block, BlockKind
from prequential_codecs.archive_header import GIVEN, OTHER, Header, name_of_given
from prequential_codecs.bit_coder import DECODE, ENCODE, SCORE, BitCoder

from prequential.errors import CheckpointError, ConfigError, CorruptArchiveError
from prequential.files import Sink
from prequential.model.config import Config, blocks
from prequential.online.checkpoint import TOTALS, Checkpoints, Saved, identity
from prequential.online.loop import Learner, run

if TYPE_CHECKING:
    from _typeshed import SupportsGetItem, SupportsWrite

    Symbols = SupportsGetItem[slice, np.ndarray]
    Writable = SupportsWrite[bytes]

WRONG_STATE = "damage that checksums missed, or one machine is not exact: run `prequential doctor` on both"
NO_SYMBOLS, NO_BITS = np.zeros(0, np.uint8), np.zeros(0)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Totals at the end of a segment: bytes of the original, ideal code length, and the size of the archive so far.

    segment: the bytes of the segment just coded, (n,) uint8; empty in the last report. segment_bits: the ideal code length of
    each byte, (n,) float64. segment_gpt_bits: the same under the GPT alone; None without a GPT, and while decoding.
    update_size: `Learner.update_size`.

    Examples:
        >>> import prequential
        >>> reports = []
        >>> archive = prequential.compress(
        ...     b"text" * 100, config=prequential.preset(1), on_progress=lambda done, n_bytes: reports.append(done)
        ... )
        >>> reports[-1].n_bytes, reports[-1].archive_bytes == len(archive)
        (400, True)
    """

    n_bytes: int = 0
    code_bits: float = 0.0  # exact below 2**31: a sum of whole units of 2**-22 bits
    archive_bytes: int = 0
    header_bytes: int = 0
    payload_bytes: int = 0
    n_blocks: int = 0
    n_raw_blocks: int = 0
    segment: NDArray[np.uint8] = field(default_factory=lambda: NO_SYMBOLS, compare=False, repr=False)
    segment_bits: NDArray[np.float64] = field(default_factory=lambda: NO_BITS, compare=False, repr=False)
    segment_gpt_bits: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    update_size: float | None = field(default=None, compare=False)

    def after(self, segment: np.ndarray, bits: np.ndarray, learner: Learner, n_bytes: int, code_bits: float) -> Self:
        """The totals after a segment, the end of n_bytes that cost code_bits."""
        totals = {"n_bytes": self.n_bytes + n_bytes, "code_bits": self.code_bits + code_bits}
        about = {"segment": segment, "segment_bits": bits, "segment_gpt_bits": learner.gpt_bits}
        # `replace` takes three times as long
        return type(self)(**vars(self) | totals | about | {"update_size": learner.update_size})

    def totals(self) -> dict[str, int | float]:
        """What a checkpoint keeps."""
        return {name: getattr(self, name) for name in TOTALS}


OnProgress = Callable[[Progress, int], object]  # called with the totals so far and the bytes of the complete original


def ignore(done: Progress, n_bytes: int) -> None:
    """An OnProgress that does nothing."""


class _Run:
    """The part that both directions share: a learner, its totals and the open block, from the start or from a checkpoint."""

    def __init__(
        self, direction: str, header: Header, learner: Learner, sink: "Writable", checkpoints: Checkpoints | None
    ) -> None:
        self.direction, self.header, self.learner, self.checkpoints = direction, header, learner, checkpoints
        self._sink = cast(Sink, sink)  # used only with checkpoints
        self.saved = checkpoints.load(direction, header, learner) if checkpoints else None
        self.done = Progress(**self.saved.totals) if self.saved else Progress()
        self.n_done_before = self.done.n_blocks  # blocks that an interrupted run completed

    def block(self, coder: BitCoder, block: slice, symbols: np.ndarray) -> Iterator[Progress]:
        """Codes a block, or its rest after a checkpoint; yields after each segment. Leaves its ideal bits in `self.open`."""
        n_done, self.open = 0, 0.0
        if self.saved and self.saved.n_open:
            n_done, self.open = self.saved.n_open, self.saved.open_bits
            if n_done > len(symbols) or not coder.restore(self.saved.coder, self.saved.words):
                raise CheckpointError("the checkpoint is not from a run of this program: its coder does not fit")
            symbols[: len(self.saved.symbols)] = self.saved.symbols
        self.saved, first = None, n_done
        for n, bits in run(self.learner, coder, slice(block.start + first, block.stop), symbols[first:]):
            segment, n_done, self.open = symbols[n_done : first + n], first + n, self.open + float(bits.sum())
            yield self.done.after(segment, bits, self.learner, n_bytes=n_done, code_bits=self.open)
            if self.checkpoints and n_done < len(symbols):
                self._save_if_due(coder, symbols[:n_done])

    def block_done(self, n_bytes: int, n_payload_bytes: int, *, is_raw: bool, archive_bytes: int = 0) -> None:
        """A block is complete: counts it, and saves the run if a checkpoint is due."""
        done = self.done
        self.done = replace(
            done, n_bytes=done.n_bytes + n_bytes, code_bits=done.code_bits + self.open, archive_bytes=archive_bytes,
            payload_bytes=done.payload_bytes + n_payload_bytes, n_blocks=done.n_blocks + 1,
            n_raw_blocks=done.n_raw_blocks + is_raw,
        )  # fmt: skip
        if self.checkpoints:
            self._sink.sync()
            self._save_if_due(None, NO_SYMBOLS)

    def resume_sink(self, n_bytes: int) -> None:
        """Continues the sink after the n_bytes of the completed blocks. Raises CheckpointError for other contents."""
        assert self.saved
        self._sink.resume(n_bytes)
        if self._sink.blake2b.hex() != self.saved.written:
            raise CheckpointError("the partial output and the checkpoint are not from the same run")

    def archive_so_far(self) -> ArchiveReader:
        """A reader positioned after the blocks that an interrupted run wrote; the sink continues there."""
        assert self.checkpoints and self.checkpoints.partial
        with self.checkpoints.partial.open("rb") as file:
            try:
                reader = ArchiveReader(file)
                n_read = sum(1 for _ in islice(reader.blocks(), self.n_done_before))
            except CorruptArchiveError as error:
                raise CheckpointError(f"the partial output is damaged: {error}") from error
        other = identity(self.direction, reader.header) != identity(self.direction, self.header)
        if other or n_read < self.n_done_before:
            raise CheckpointError("the partial output is from another run")
        self.resume_sink(reader.source.n_bytes_taken)
        return reader

    def _save_if_due(self, coder: BitCoder | None, symbols: np.ndarray) -> None:
        def saved() -> Saved:
            self._sink.sync()  # the checkpoint continues from this output
            saved = Saved(totals=self.done.totals(), written=self._sink.blake2b.hex())
            if coder is None:
                return saved
            state, words = coder.saved()
            known = symbols if self.direction == "decompress" else NO_SYMBOLS
            return replace(saved, n_open=len(symbols), open_bits=self.open, coder=state, words=words, symbols=known)

        assert self.checkpoints
        self.checkpoints.save_if_due(self.direction, self.header, self.learner, saved)


def config_of(header: Header, *, knows_given: bool = False) -> Config:
    """The configuration that an archive declares.

    Raises CorruptArchiveError if no learner can have it, ConfigError for a learner that is not of this program, or one that
    needs another text, unless knows_given.
    """
    values = dict(header.config)
    if isinstance(other := values.get(OTHER), dict):
        raise ConfigError(f"the archive is of a learner of its own, {other.get('name')!r}: only `evaluate` can use it")
    if (needed := values.pop(GIVEN, None)) is not None and not knows_given:
        raise ConfigError(f"the archive needs {name_of_given(needed)} to decode: name it with given=")
    try:
        return Config.from_dict(values)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error


def compress(
    source: "Symbols", header: Header, sink: "Writable", learner: Learner, checkpoints: Checkpoints | None = None
) -> Iterator[Progress]:
    """Writes the archive of `source` (n,) uint8 to `sink`, yielding Progress after every segment and once at the end.

    learner: a fresh one of header.config. Memory does not depend on n. With checkpoints, for which the sink must be a Sink, the
    run continues from the state and output of an interrupted run, or raises CheckpointError.
    """
    with checkpoints.holding_signals() if checkpoints else nullcontext():
        this = _Run("compress", header, learner, sink, checkpoints)
        writer = ArchiveWriter(sink, header, after=this.archive_so_far() if this.saved else None)
        this.done = replace(this.done, header_bytes=writer.header_bytes, archive_bytes=writer.n_bytes_written)
        for block in islice(blocks(header.n_bytes, learner.schedule), this.n_done_before, None):
            coder, symbols = BitCoder(ENCODE), np.array(source[block])
            yield from this.block(coder, block, symbols)
            payload, kind, n = coder.payload(), BlockKind.CODED, len(symbols)
            if len(payload) >= n:
                payload, kind = symbols.tobytes(), BlockKind.RAW
            digest = learner.digest()
            sizes = {"n_bytes": n, "n_symbols": n, "payload_bytes": len(payload)}
            writer.write_block(Block(kind=kind, **sizes, state_digest=digest, payload=payload))
            this.block_done(n, len(payload), is_raw=kind is BlockKind.RAW, archive_bytes=writer.n_bytes_written)
        writer.close()
        yield replace(this.done, archive_bytes=writer.n_bytes_written)


def decompress(
    reader: ArchiveReader, sink: "Writable", learner: Learner, checkpoints: Checkpoints | None = None
) -> Iterator[Progress]:
    """Writes the original to `sink` block by block, each once it is verified; yields as `compress` does.

    learner: a fresh one of `config_of` the header. Raises CorruptArchiveError with the number of the failing block; `sink` then
    holds a correct prefix of the original. The caller compares the complete output with header.blake2b.
    """
    with checkpoints.holding_signals() if checkpoints else nullcontext():
        this, header = _Run("decompress", reader.header, learner, sink, checkpoints), reader.header
        if this.saved:
            this.resume_sink(this.done.n_bytes)
        this.done = replace(this.done, header_bytes=reader.header_bytes)
        ranges, start = blocks(header.n_bytes, learner.schedule), 0
        for number, block in enumerate(reader.blocks()):
            where, n = f"block {number} (original bytes {start}-{start + block.n_bytes})", block.n_bytes
            start += n
            span = next(ranges, slice(0, 0))
            if not n == block.n_symbols == span.stop - span.start:
                raise CorruptArchiveError(f"{where}: its size does not follow from the header")
            if number < this.n_done_before:
                continue
            raw = block.kind is BlockKind.RAW
            symbols = np.frombuffer(block.payload, np.uint8).copy() if raw else np.zeros(n, np.uint8)
            try:
                coder = BitCoder(SCORE) if raw else BitCoder(DECODE, block.payload)
                yield from this.block(coder, span, symbols)
                if not raw:
                    coder.check_end()
            except CorruptArchiveError as error:  # its checksum was right
                raise CorruptArchiveError(f"{where}: {error}; {WRONG_STATE}") from error
            if learner.digest() != block.state_digest:
                raise CorruptArchiveError(f"{where}: the learner's state differs from the encoder's; {WRONG_STATE}")
            sink.write(symbols.tobytes())
            this.block_done(n, len(block.payload), is_raw=raw)
        yield this.done
