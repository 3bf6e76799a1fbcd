"""The bundled texts: present, unchanged, and without added text."""

import hashlib
import re
from pathlib import Path

import pytest
from prequential_corpora.bundled import sample_path, samples
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError


def test_every_sample_is_the_file_that_the_readme_describes() -> None:
    for path in samples().values():
        data = path.read_bytes()
        row = f"| `{path.name}` | {len(data):,} | `{hashlib.sha256(data).hexdigest()}` |"
        assert row in path.with_name("README.md").read_text().splitlines()


def test_christmas_carol_starts_with_its_title_and_ends_with_its_last_line() -> None:
    text = sample_path("christmas_carol").read_text(encoding="ascii")
    assert text.startswith("A CHRISTMAS CAROL\n\nby Charles Dickens\n")
    assert text.endswith("God bless Us, Every One!\n")
    assert not re.search("gutenberg|etext|public domain|donations", text, re.IGNORECASE)


def test_the_error_for_an_unknown_sample_lists_all_names() -> None:
    with pytest.raises(CorpusError, match=r"there is no sample 'nope'; choose from .*christmas_carol"):
        open_corpus("sample:nope")


def test_the_description_of_a_sample_does_not_depend_on_the_installation() -> None:
    with open_corpus("sample:christmas_carol") as corpus:
        assert corpus.describe() == {"kind": "sample", "name": "christmas_carol"}


SILESIA_DICKENS = Path(__file__).parents[3] / "shared/corpora/text/dickens"


@pytest.mark.skipif(not SILESIA_DICKENS.exists(), reason="the Silesia corpus is not here")
def test_christmas_carol_is_the_documented_part_of_the_silesia_corpus() -> None:
    part = SILESIA_DICKENS.read_bytes()[3935679:4098032]
    assert sample_path("christmas_carol").read_bytes() == part.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
