"""The bundled texts: present, unchanged, and without added text."""

import hashlib

import pytest
from prequential_corpora.bundled import samples
from prequential_corpora.sources import open_corpus

from prequential.errors import CorpusError


def test_every_sample_is_the_file_that_the_readme_describes() -> None:
    for path in samples().values():
        data = path.read_bytes()
        row = f"| `{path.name}` | {len(data):,} | `{hashlib.sha256(data).hexdigest()}` |"
        assert row in path.with_name("README.md").read_text().splitlines()


def test_the_error_for_an_unknown_sample_lists_all_names() -> None:
    with pytest.raises(CorpusError, match=r"there is no sample 'nope'; choose from .*christmas_carol"):
        open_corpus("sample:nope")


def test_the_description_of_a_sample_does_not_depend_on_the_installation() -> None:
    with open_corpus("sample:christmas_carol") as corpus:
        assert corpus.describe() == {"kind": "sample", "name": "christmas_carol"}
