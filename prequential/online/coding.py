"""The ends of the loop: compress writes an archive, decompress reads one; both yield their progress and leave I/O policy out.

A block of the archive is a run of whole stripes. After each block both sides note a digest of the learner's state, so a
decoder that has gone astray stops at the first block, and says so, instead of writing noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np

from prequential.codecs import (
    ArchiveReader,
    ArchiveWriter,
    Block,
    BlockKind,
    Header,
    RangeDecoder,
    RangeEncoder,
    ideal_code_bits,
)
from prequential.errors import ConfigError, CorruptArchiveError
from prequential.model.config import Config, StreamConfig
from prequential.online.loop import Loop
from prequential.online.runtime import Runtime
from prequential.online.stripes import Stripe, stripes

ASTRAY = "damage that checksums missed, or one machine's arithmetic is not exact: run `prequential doctor` on both"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Totals up to a segment's end: bytes of the original, ideal code length, and what the archive holds so far."""

    n_bytes: int = 0
    code_bits: float = 0.0  # sum of -log2 of the coded frequencies / 2**24
    archive_bytes: int = 0
    header_bytes: int = 0
    payload_bytes: int = 0
    n_blocks: int = 0
    n_raw_blocks: int = 0


class _Encoding:
    """The end that knows the symbols and codes them."""

    columns_at_once: int | None = None

    def __init__(self) -> None:
        self._coder = RangeEncoder()
        self.code_bits = 0.0

    def code(self, symbols: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        self._coder.encode(symbols, frequencies)
        self.code_bits += ideal_code_bits(symbols, frequencies)
        return symbols

    def finish(self) -> bytes:
        return self._coder.finish()


class _Decoding:
    """The end that finds out the symbols, column by column."""

    columns_at_once: int | None = 1

    def __init__(self, payload: bytes) -> None:
        self._coder = RangeDecoder(payload)
        self.code_bits = 0.0

    def code(self, symbols: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        found = self._coder.decode(frequencies)
        self.code_bits += ideal_code_bits(found, frequencies)
        return found

    def finish(self) -> None:
        self._coder.finish()


class _Known:
    """The end of a raw block: the symbols are at hand, nothing is coded, and the learner learns all the same."""

    columns_at_once: int | None = None
    code_bits = 0.0

    def code(self, symbols: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        return symbols

    def finish(self) -> None:
        pass


def blocks(n_symbols: int, config: StreamConfig) -> Iterator[list[Stripe]]:
    """The stripes of n_symbols symbols, grouped: a block ends as soon as it holds block_symbols symbols, or at the end."""
    group: list[Stripe] = []
    n_grouped = 0
    for stripe in stripes(n_symbols, config):
        group.append(stripe)
        n_grouped += stripe.n_symbols
        if n_grouped >= config.block_symbols:
            yield group
            group, n_grouped = [], 0
    if group:
        yield group


def compress(source: np.ndarray, header: Header, sink: BinaryIO, runtime: Runtime) -> Iterator[Progress]:
    """Writes the archive of `source` (n,) uint8 to `sink`, yielding Progress after every segment and once at the end.

    `header.config` must be a Config's dict and header.n_bytes equal n. Memory does not depend on n (source may be mapped).
    """
    config = _byte_config(header)
    loop = Loop(runtime.learner(config)) if len(source) else None
    writer = ArchiveWriter(sink, header)
    done = Progress(header_bytes=writer.header_bytes, archive_bytes=writer.n_bytes_written)
    for group in blocks(len(source), config.streams):
        assert loop is not None
        end, symbols = _Encoding(), source[group[0].start : group[-1].start + group[-1].n_symbols]
        for n_done in _run_block(loop, end, group, np.array(symbols)):
            yield replace(done, n_bytes=done.n_bytes + n_done, code_bits=done.code_bits + end.code_bits)
        payload, kind = end.finish(), BlockKind.CODED
        if len(payload) >= len(symbols):
            payload, kind = symbols.tobytes(), BlockKind.RAW
        digest = loop.learner.digest()
        writer.write_block(
            Block(kind=kind, n_bytes=len(symbols), n_symbols=len(symbols), state_digest=digest, payload=payload)
        )
        done = Progress(
            n_bytes=done.n_bytes + len(symbols),
            code_bits=done.code_bits + end.code_bits,
            archive_bytes=writer.n_bytes_written,
            header_bytes=writer.header_bytes,
            payload_bytes=writer.payload_bytes,
            n_blocks=done.n_blocks + 1,
            n_raw_blocks=done.n_raw_blocks + (kind is BlockKind.RAW),
        )
    writer.close()
    yield replace(done, archive_bytes=writer.n_bytes_written)


def decompress(reader: ArchiveReader, sink: BinaryIO, runtime: Runtime) -> Iterator[Progress]:
    """Writes the original to `sink` block by block, each once it is verified; yields as `compress` does.

    Raises CorruptArchiveError naming the block that fails; what `sink` holds by then is a true prefix of the original. The
    caller compares the whole with header.blake2b.
    """
    header = reader.header
    try:
        config = _byte_config(header)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error
    loop = Loop(runtime.learner(config)) if header.n_bytes else None
    done = Progress(header_bytes=reader.header_bytes)
    groups = blocks(header.n_bytes, config.streams)
    for number, block in enumerate(reader.blocks()):
        where = f"block {number} (original bytes {done.n_bytes}-{done.n_bytes + block.n_bytes})"
        group = next(groups, [])
        if block.n_bytes != block.n_symbols or block.n_bytes != sum(s.n_symbols for s in group):
            raise CorruptArchiveError(f"{where}: its size does not follow from the header")
        assert loop is not None
        raw = block.kind is BlockKind.RAW
        end = _Known() if raw else _Decoding(block.payload)
        symbols = np.frombuffer(block.payload, np.uint8).copy() if raw else np.zeros(block.n_bytes, np.uint8)
        try:
            for n_done in _run_block(loop, end, group, symbols):
                yield replace(done, n_bytes=done.n_bytes + n_done, code_bits=done.code_bits + end.code_bits)
            end.finish()
        except CorruptArchiveError as error:  # its checksum was right
            raise CorruptArchiveError(f"{where}: {error}; {ASTRAY}") from error
        if loop.learner.digest() != block.state_digest:
            raise CorruptArchiveError(f"{where}: the learner's state differs from the encoder's; {ASTRAY}")
        sink.write(symbols.tobytes())
        done = Progress(
            n_bytes=done.n_bytes + block.n_bytes,
            code_bits=done.code_bits + end.code_bits,
            header_bytes=done.header_bytes,
            payload_bytes=done.payload_bytes + len(block.payload),
            n_blocks=number + 1,
            n_raw_blocks=done.n_raw_blocks + raw,
        )
    yield done


def _byte_config(header: Header) -> Config:
    """The header's Config. Raises ConfigError if it is malformed, out of range, or not over bytes."""
    config = Config.from_dict(header.config)
    if config.n_symbols != 256:
        raise ConfigError(f"n_symbols = {config.n_symbols}: the alphabet of bytes has 256 symbols")
    return config


def _run_block(
    loop: Loop, end: _Encoding | _Decoding | _Known, group: list[Stripe], symbols: np.ndarray
) -> Iterator[int]:
    """Runs a block's stripes over its symbols (n,) uint8, in place; yields how many are done."""
    offset = group[0].start
    for stripe in group:
        first = stripe.start - offset
        for n_done in loop.run(end, stripe, symbols[first : first + stripe.n_symbols]):
            yield first + n_done
