"""The site of docs/: it builds without a warning, its names are links, and its search works from a folder."""

import json
from pathlib import Path

import pytest

pytest.importorskip("mkdocstrings")
from mkdocs.commands.build import build
from mkdocs.config import load_config

PROJECT = Path(__file__).parents[1]


@pytest.mark.thorough
def test_the_site_builds_strictly_with_links_and_a_search_that_needs_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    build(load_config("mkdocs.yml", site_dir=str(tmp_path), strict=True))
    page = (tmp_path / "api" / "evaluation.html").read_text("utf-8")
    assert 'href="configuration.html#prequential.Config"' in page  # a type in a signature
    assert 'href="errors.html#prequential.CorpusError"' in page  # a name in a docstring
    index = (tmp_path / "search" / "search_index.js").read_text("utf-8")
    pages = {
        entry["location"] for entry in json.loads(index.removeprefix("const SEARCH_INDEX = ").removesuffix(";"))["docs"]
    }
    assert {"index.html", "api/evaluation.html#prequential.evaluate"} <= pages
    start = (tmp_path / "index.html").read_text("utf-8")
    assert start.index("pictures/learning.png") < start.index("description length") < start.index('id="where-to-go-on"')
