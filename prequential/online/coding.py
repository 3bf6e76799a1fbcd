"""The ends of the loop: compress writes an archive, decompress reads one; both yield their progress and leave I/O policy out.

After each block of the archive both sides note a digest of the learner's state, so a
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
)
from prequential.errors import ConfigError, CorruptArchiveError
from prequential.exact.bit_coder import DECODE, ENCODE, FOLLOW, BitCoder
from prequential.model.config import Config
from prequential.online.loop import run
from prequential.online.runtime import Runtime
from prequential.online.schedule import blocks

ASTRAY = "damage that checksums missed, or one machine's arithmetic is not exact: run `prequential doctor` on both"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Totals up to a segment's end: bytes of the original, ideal code length, and what the archive holds so far."""

    n_bytes: int = 0
    code_bits: float = 0.0  # sum of -log2 of the coded decisions' frequencies / 2**16
    archive_bytes: int = 0
    header_bytes: int = 0
    payload_bytes: int = 0
    n_blocks: int = 0
    n_raw_blocks: int = 0


def compress(source: np.ndarray, header: Header, sink: BinaryIO, runtime: Runtime) -> Iterator[Progress]:
    """Writes the archive of `source` (n,) uint8 to `sink`, yielding Progress after every segment and once at the end.

    `header.config` must be a Config's dict and header.n_bytes equal n. Memory does not depend on n (source may be mapped).
    """
    config = Config.from_dict(header.config)
    learner = runtime.learner(config)
    writer = ArchiveWriter(sink, header)
    done = Progress(header_bytes=writer.header_bytes, archive_bytes=writer.n_bytes_written)
    for block in blocks(len(source), config.schedule):
        coder, symbols, code_bits = BitCoder(ENCODE), np.array(source[block]), 0.0
        for n_done, code_bits in run(learner, coder, block, symbols):
            yield replace(done, n_bytes=done.n_bytes + n_done, code_bits=done.code_bits + code_bits)
        payload, kind = coder.payload(), BlockKind.CODED
        if len(payload) >= len(symbols):
            payload, kind = symbols.tobytes(), BlockKind.RAW
        digest = learner.digest()
        writer.write_block(
            Block(kind=kind, n_bytes=len(symbols), n_symbols=len(symbols), state_digest=digest, payload=payload)
        )
        done = Progress(
            n_bytes=done.n_bytes + len(symbols),
            code_bits=done.code_bits + code_bits,
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
        config = Config.from_dict(header.config)
    except ConfigError as error:
        raise CorruptArchiveError(f"header: {error}") from error
    learner = runtime.learner(config)
    done = Progress(header_bytes=reader.header_bytes)
    ranges = blocks(header.n_bytes, config.schedule)
    for number, block in enumerate(reader.blocks()):
        where = f"block {number} (original bytes {done.n_bytes}-{done.n_bytes + block.n_bytes})"
        span = next(ranges, slice(0, 0))
        if block.n_bytes != block.n_symbols or block.n_bytes != span.stop - span.start:
            raise CorruptArchiveError(f"{where}: its size does not follow from the header")
        raw, code_bits = block.kind is BlockKind.RAW, 0.0
        symbols = np.frombuffer(block.payload, np.uint8).copy() if raw else np.zeros(block.n_bytes, np.uint8)
        try:
            coder = BitCoder(FOLLOW) if raw else BitCoder(DECODE, block.payload)
            for n_done, code_bits in run(learner, coder, span, symbols):
                yield replace(done, n_bytes=done.n_bytes + n_done, code_bits=done.code_bits + code_bits)
            if not raw:
                coder.check_end()
        except CorruptArchiveError as error:  # its checksum was right
            raise CorruptArchiveError(f"{where}: {error}; {ASTRAY}") from error
        if learner.digest() != block.state_digest:
            raise CorruptArchiveError(f"{where}: the learner's state differs from the encoder's; {ASTRAY}")
        sink.write(symbols.tobytes())
        done = Progress(
            n_bytes=done.n_bytes + block.n_bytes,
            code_bits=done.code_bits + code_bits,
            header_bytes=done.header_bytes,
            payload_bytes=done.payload_bytes + len(block.payload),
            n_blocks=number + 1,
            n_raw_blocks=done.n_raw_blocks + raw,
        )
    yield done
