"""The site of docs/: it builds without a warning, its links have titles, and it works from a folder."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocstrings")
pytest.importorskip("material")
from mkdocs.commands.build import build
from mkdocs.config import load_config

PROJECT = Path(__file__).parents[1]


@pytest.mark.thorough
def test_the_site_builds_strictly_with_titles_as_links_and_needs_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    build(load_config("mkdocs.yml", site_dir=str(tmp_path), strict=True))
    page = (tmp_path / "api" / "evaluation.html").read_text("utf-8")
    assert 'href="configuration.html#prequential.Config"' in page  # a type in a signature
    assert 'href="errors.html#prequential.CorpusError"' in page  # a name in a docstring
    index = (tmp_path / "search" / "search_index.js").read_text("utf-8")
    pages = {entry["location"] for entry in json.loads(index.removeprefix("var __index = "))["docs"]}
    assert {"index.html", "api/evaluation.html#prequential.evaluate", "COMMANDS.html#runs-list"} <= pages
    for made in tmp_path.rglob("*.html"):
        text = made.read_text("utf-8")
        assert not re.search(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=.?https?:", text), made.name
        assert not re.search(r">[A-Z]+\.md</a>", text), made.name  # links have titles
    assert (tmp_path / "notebooks" / "quick_start.html").read_text("utf-8").count("<img") >= 2
    start = (tmp_path / "index.html").read_text("utf-8")
    assert start.index("pictures/learning.png") < start.index("description length") < start.index('id="where-to-go-on"')
