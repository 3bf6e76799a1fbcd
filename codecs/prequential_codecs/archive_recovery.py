"""Recovery of the blocks of a damaged archive that follow its first damaged block (`decompress --keep-going`)."""

import itertools
import os
from collections.abc import Iterator, Sequence

from prequential_codecs.archive_block import BlockKind
from prequential_codecs.archive_summary import SurveyedBlock, read_payload, survey
from prequential.errors import OutputError
from prequential.files import output_file


def recover_blocks(path: str | os.PathLike[str], output: str, *, overwrite: bool = False) -> Iterator[str]:
    """Yields one line of text for each group of equal blocks after the first fault of the archive at `path`.

    Blocks that are stored raw and intact are saved as OUTPUT.from-START, where START is their offset in the original. A file of
    this name is replaced only if `overwrite`.
    Raises CorruptArchiveError, UnsupportedVersionError, OSError.
    """
    found = survey(path)
    if not found.fault:
        yield "all checksums are right: the damage is not in the file"
    for kind, group in itertools.groupby(found.blocks, key=lambda block: block.head and block.head.kind):
        blocks = list(group)
        if blocks[-1].stop <= found.n_bytes_held:
            continue
        if kind is None:
            yield f"{_place(blocks)} damaged"
        elif kind is BlockKind.CODED:
            yield f"{_place(blocks)} intact, but coded after the damaged data: lost unless the damage is repaired"
        else:
            yield from _save_raw_blocks(path, blocks, output, overwrite=overwrite)
    covered = found.blocks[-1].stop if found.blocks else 0
    if covered < found.header.n_bytes:
        yield f"original bytes {covered}-{found.header.n_bytes}: the archive ends before them, or its index is damaged too"


def _save_raw_blocks(
    path: str | os.PathLike[str], blocks: Sequence[SurveyedBlock], output: str, *, overwrite: bool
) -> Iterator[str]:
    def failure(block: SurveyedBlock) -> str:
        try:
            with output_file(f"{output}.from-{block.start}", overwrite=overwrite, like=path) as sink:
                sink.write(read_payload(path, block))
        except OutputError as error:
            return str(error)
        return ""

    for reason, group in itertools.groupby(blocks, key=failure):
        alike = list(group)
        first, last = alike[0], alike[-1]
        up_to = f" to {output}.from-{last.start}" if last is not first else ""
        result = f"not saved, because {reason}" if reason else f"saved as {output}.from-{first.start}{up_to}"
        yield f"{_place(alike)} stored raw and intact: {result}"


def _place(blocks: Sequence[SurveyedBlock]) -> str:
    first, last = blocks[0], blocks[-1]
    numbers = f"block {first.number}" if first is last else f"blocks {first.number}-{last.number}"
    return f"{numbers} (original bytes {first.start}-{last.stop})"
