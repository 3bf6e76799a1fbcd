"""The check of the prequential law on a running learner: an ordinary run with a witness, and the opposite run without one.

A corpus is encoded under a witness and decoded without. An archive is decoded under a witness and encoded without. witness.py
lists the checks.
"""

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from prequential_codecs.archive import ArchiveReader, ArchiveWriter, Block
from prequential_codecs.archive_header import Header

from prequential.errors import CorpusError, CorruptArchiveError
from prequential.model.config import Config
from prequential.online import coding
from prequential.online.coding import OnProgress
from prequential.online.loop import Learner
from prequential.online.runtime import Runtime
from prequential.online.source import digest_of
from prequential.printable import format_table
from prequential.proof.witness import ROUND_TRIP, Sampling, Verdict, Verdicts, Witness

N_LEARNERS = 3  # in memory at a time: the learner, its twin, and the state that the twin is reset to


def check_corpus(
    source: NDArray[np.uint8], config: Config, runtime: Runtime, samples: int, on_progress: OnProgress
) -> list[Verdict]:
    """Encodes `source` (n,) uint8 under a witness, decodes it, and compares.

    samples: number of segments in which CODE and FUTURE are each checked. Takes two runs, the samples (about a second each at the
    default preset), and memory for N_LEARNERS learners. Raises CorpusError for an empty corpus.
    """
    if not len(source):
        raise CorpusError("nothing to check: the corpus is empty")
    header = Header(n_bytes=len(source), blake2b=digest_of(source), config=config.to_dict())
    verdicts, archive, decoded = Verdicts(), io.BytesIO(), io.BytesIO()
    witness = _witness(runtime, config, Sampling(len(source), samples), verdicts)
    for done in coding.compress(source, header, archive, cast(Learner, witness)):
        on_progress(done, len(source))
    witness.close(done)
    archive.seek(0)
    failure = "the archive decodes to other bytes"
    try:
        for done in coding.decompress(ArchiveReader(archive), decoded, runtime.learner(config)):
            on_progress(done, len(source))
    except CorruptArchiveError as error:
        failure = str(error)
    verdicts.add(ROUND_TRIP, decoded.getvalue() == source.tobytes(), failure, len(source))
    return verdicts.list()


def check_archive(
    archive: BinaryIO, runtime: Runtime, samples: int, limit_bytes: int, on_progress: OnProgress
) -> list[Verdict]:
    """Decodes an archive under a witness, encodes the result, and compares.

    Only blocks up to the one that reaches limit_bytes of the original are decoded. Time and memory are those of `check_corpus`.
    Raises CorruptArchiveError, ConfigError for a learner above the limits of the runtime, and CorpusError for an empty original.
    """
    reader = ArchiveReader(archive)
    config = coding.config_of(reader.header)
    runtime.check(config, n_learners=N_LEARNERS)
    taken = []
    for block in reader.blocks():
        taken.append(block)
        if reader.n_bytes_covered >= limit_bytes:
            break
    header = replace(reader.header, n_bytes=sum(block.n_bytes for block in taken))
    if not header.n_bytes:
        raise CorpusError("nothing to check: the original is empty")
    verdicts, decoded, encoded = Verdicts(), io.BytesIO(), io.BytesIO()
    witness = _witness(runtime, config, Sampling(header.n_bytes, samples), verdicts)
    for done in coding.decompress(ArchiveReader(_archive_of(header, taken)), decoded, cast(Learner, witness)):
        on_progress(done, header.n_bytes)
    witness.close(done)
    original = np.frombuffer(decoded.getvalue(), np.uint8)
    has_digest = header.n_bytes < reader.header.n_bytes or digest_of(original) == header.blake2b
    for done in coding.compress(original, header, encoded, runtime.learner(config)):
        on_progress(done, header.n_bytes)
    encoded.seek(0)
    failure = "what was decoded encodes to another archive" if has_digest else "the original's digest differs"
    same = has_digest and list(ArchiveReader(encoded).blocks()) == taken
    verdicts.add(ROUND_TRIP, same, failure, header.n_bytes)
    return verdicts.list()


def _archive_of(header: Header, blocks: list[Block]) -> BinaryIO:
    archive = io.BytesIO()
    writer = ArchiveWriter(archive, header)
    for block in blocks:
        writer.write_block(block)
    writer.close()
    archive.seek(0)
    return archive


def _witness(runtime: Runtime, config: Config, sampling: Sampling, verdicts: Verdicts) -> Witness:
    """A witness of a new learner. Its twin is never audited."""
    return Witness(runtime.learner(config), replace(runtime, audit_every=0).learner(config), sampling, verdicts)


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """The checks of the law as a table."""
    rows = [(v.check, f"{v.times}", "FAILED" if v.failure else "ok") for v in verdicts]
    return format_table(("check", "times", "result"), rows)
