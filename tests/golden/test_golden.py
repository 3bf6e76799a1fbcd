"""Archives of format version 1, made once and committed. Every machine and every later version must decode them.

`python tests/golden/make.py` made them. No file is replaced after its format version is released.
"""

import io
from functools import cache
from pathlib import Path

import pytest
from prequential_codecs.archive import ArchiveReader
from prequential_corpora.sources import sample_path

import prequential
from prequential.model.presets import PRESETS

GOLDEN = sorted(Path(__file__).parent.glob("*.pq"))
DISTINCT = sorted({path.read_bytes(): path for path in reversed(GOLDEN)}.values())  # some presets are the same


@cache
def decoded(path):
    return prequential.decompress(path.read_bytes())  # compares the original with the archive's BLAKE2b


def test_there_are_golden_archives_of_every_kind():
    presets = {f"v1-preset{level}" for level in PRESETS}
    assert {path.stem for path in GOLDEN} == presets | {"v1-pure", "v1-raw", "v1-empty"}


@pytest.mark.parametrize("path", DISTINCT, ids=lambda path: path.stem)
@pytest.mark.first_quick
def test_a_golden_archive_decodes(path):
    original = decoded(path)
    text = sample_path("christmas_carol").read_bytes()
    assert original == (path.with_suffix(".bin").read_bytes() if path.stem == "v1-raw" else text[: len(original)])


@pytest.mark.parametrize("path", [p for p in DISTINCT if p.stem != "v1-empty"], ids=lambda path: path.stem)
@pytest.mark.first_quick
def test_the_encoder_still_writes_the_blocks_of_the_golden_archive(path):
    """The same bits from another machine: block by block, payloads and state digests."""
    reader = ArchiveReader(io.BytesIO(path.read_bytes()))
    config = prequential.Config.from_dict(reader.header.config)
    archive = prequential.compress(decoded(path), config=config)
    assert list(ArchiveReader(io.BytesIO(archive)).blocks()) == list(reader.blocks())
