"""The documents: every link leads somewhere, every document that the source names exists, and the log's lines are short."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
DOCUMENTS = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("*.md"), *(PROJECT / "dev").glob("*.md")])
FOLDERS = ("prequential", "codecs", "corpora", "benchmarks", "tests")
SOURCES = [path for folder in FOLDERS for path in sorted((PROJECT / folder).rglob("*.py"))]
PAST = {"LOG.md"}  # of older trees
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def without_code(text: str) -> str:
    """The text without indented and fenced blocks, in which brackets mean something else."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def anchors(document: Path) -> set[str]:
    """The names of a document's headings, as links use them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> Iterator[str]:
    for link in LINK.findall(without_code(document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    assert list(broken_links(document)) == []


def _written(path: Path) -> str:
    """The text of a file; of a notebook without its outputs, which may name documents of an older tree."""
    text = path.read_text(encoding="utf-8")
    return text if path.suffix != ".ipynb" else "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def test_every_document_that_the_source_names_exists() -> None:
    named = {
        (path.name, name)
        for path in (*SOURCES, *sorted((PROJECT / "notebooks").glob("*.ipynb")), *DOCUMENTS, PROJECT / "Makefile")
        if path.name not in PAST
        for name in re.findall(r"\b((?:docs|dev)/[A-Z0-9-]+\.md)\b", _written(path))
    }
    assert len(named) > 20
    assert sorted(pair for pair in named if not (PROJECT / pair[1]).is_file()) == []


def test_every_promise_names_tests_that_exist() -> None:
    text = (PROJECT / "docs" / "RELIABILITY.md").read_text(encoding="utf-8")
    (promises,) = re.findall(r"^## Promises and their tests$(.*?)^## ", text, flags=re.MULTILINE | re.DOTALL)
    tests = sorted((PROJECT / "tests").rglob("*.py"))
    known = {path.name for path in (*tests, *(PROJECT / "dev" / "fuzz").glob("*.py"))}
    for path in tests:
        known.update(re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(?:[\w/]+/)?(test_\w+(?:\.py)?|\w+\.py)`", row.rsplit("|", 2)[1]) for row in rows]
    assert len(named) > 20 and all(named)
    assert sorted({name for names in named for name in names} - known) == []


def test_every_section_that_is_cited_by_its_title_or_day_exists() -> None:
    """Such as DOCUMENT.md, "Title", and LOG.md, 2026-11-26 the day."""
    names = "|".join(path.stem for path in DOCUMENTS)
    pattern = re.compile(rf'\b({names})(?:\.md)?(?:\]\([^)]*\))?,\s+(?:"([A-Z][^"]+)"|(\d{{4}}-\d\d-\d\d))')
    cited = [(path.name, *each) for path in (*SOURCES, *DOCUMENTS) for each in pattern.findall(path.read_text("utf-8"))]
    assert {document for _, document, *_ in cited} >= {"STUDIES", "RELIABILITY", "LOG"}
    headings = {path.stem: re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE) for path in DOCUMENTS}
    assert [each for each in cited if not any(t.startswith(each[2] or each[3]) for t in headings[each[1]])] == []


def test_every_test_that_a_document_names_exists() -> None:
    known = set(re.findall(r"\bdef (test_\w+)", "".join(path.read_text(encoding="utf-8") for path in SOURCES)))
    known |= {path.name for path in SOURCES}
    named = {
        (path.name, name)
        for path in DOCUMENTS
        if path.name not in PAST
        for name in re.findall(
            r"`((?:tests/[\w/]+/)?test_\w+(?:\.py)?|tests/[\w/]+(?:\.py)?)`", path.read_text("utf-8")
        )
    }
    assert len(named) > 60
    missing = [each for each in named if each[1].rpartition("/")[2] not in known and not (PROJECT / each[1]).is_dir()]
    wrong_folder = [each for each in named if "/" in each[1] and not (PROJECT / each[1]).exists()]
    assert sorted({*missing, *wrong_folder}) == []


def test_no_document_has_a_gap_to_fill_and_the_lines_of_the_log_are_short() -> None:
    assert [path.name for path in DOCUMENTS if "@@" in path.read_text(encoding="utf-8")] == []
    lines = (PROJECT / "dev" / "LOG.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 130] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    text = (PROJECT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/]+\.py\b", text))
    assert len(named) > 40
    # "contexts.py", after its folder was named
    roots = {PROJECT, *(path.parent for path in (PROJECT / "prequential").rglob("*.py"))}
    assert sorted(name for name in named if not any((root / name).is_file() for root in roots)) == []


def test_the_readme_is_for_two_minutes() -> None:
    assert len((PROJECT / "README.md").read_text(encoding="utf-8").split()) <= 900
