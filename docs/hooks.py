"""Hooks of the site (mkdocs.yml). The documents are written to be read on their own, too; here they become pages of a site."""

import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

import prequential

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
import record_fields  # noqa: E402 - of this folder

LOG = get_plugin_logger(__name__)
NAMES = "|".join(prequential.__all__)
PARTS = re.compile(
    rf"^```.*?^```|^ {{4}}[^\n]*|`prequential\.(?P<name>{NAMES})`|`[^`]*`"  # code, which stays as it is
    r"|\[(?P<text>[^\]]*)\]\((?P<target>\.\./[^)\s]*)\)"
    r"|(?P<formula>\]\[)"  # as in w[i][j]; it is no reference
    r"|^(?P<indent> {2,3})(?=\S)",  # of a list item; Python-Markdown needs four spaces
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Files, *, config: Any) -> None:
    """Adds the page of records, which no file has."""
    files.append(File.generated(config, "RECORDS.md", content=record_fields.page()))


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page as the site needs it. A link out of docs/ becomes its text, because that file is not on the site."""

    def converted(part: re.Match[str]) -> str:
        if part["name"]:
            return _linked(part["name"], part[0])
        if part["formula"]:
            return r"]\["
        if part["indent"]:
            return " " * 4
        if part["target"] and not (target := _file_of(part["target"], page)).is_relative_to(DOCS):
            if not target.exists():
                LOG.warning("%s links to %s, which does not exist", page.file.src_uri, part["target"])
            return part["text"]
        return part[0]

    return PARTS.sub(converted, markdown)


def on_post_build(*, config: Any) -> None:
    """The index of the search as a script, which pages can load from a folder, too."""
    index = Path(config.site_dir, "search", "search_index.json")
    index.with_suffix(".js").write_text(f"const SEARCH_INDEX = {index.read_text('utf-8')};", "utf-8")
    for unused in (index, index.with_name("worker.js")):
        unused.unlink()


def _linked(name: str, text: str) -> str:
    """A reference to a public name."""
    return f"[{text}][prequential.{name}]"


def _file_of(link: str, page: Any) -> Path:
    return ((DOCS / page.file.src_uri).parent / link.partition("#")[0]).resolve()


class Arguments(griffe.Extension):
    """In docstrings, `name: what it is` begins a new line if it is an argument or a field; public names are references."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        _separate(func, [parameter.name for parameter in func.parameters])

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        _separate(cls, [name for name, member in cls.members.items() if not member.is_alias and member.is_attribute])


def _separate(documented: griffe.Object, names: list[str]) -> None:
    if documented.docstring is None:
        return
    text, heading, examples = documented.docstring.value.partition("\nExamples:\n")
    text = _with_references(text, {*names, documented.name})
    if names:
        name = rf"(?:{'|'.join(names)})"
        described = re.compile(rf"(^|\n\s*|[.;:)]\s+)({name}(?:(?:, | and ){name})*)(?=(?: \([^)]*\)[^:\n.]*)?: )")
        text = described.sub(lambda part: f"{part[1].rstrip()}  \n`{part[2]}`", text)
    documented.docstring.value = text + heading + examples


def _with_references(text: str, own: set[str]) -> str:
    """The text, in which `preset` and CorpusError are references, unless they are names of its own; `**` is a power."""

    def converted(part: re.Match[str]) -> str:
        if part[0] == "**":
            return r"\*\*"
        name = part["code"] or part["word"]
        return _linked(name, part[0] if part["code"] else f"`{name}`") if name and name not in own else part[0]

    code = rf"`(?:prequential\.)?(?P<code>{NAMES})`|`[^`]*`"
    word = rf"\b(?P<word>(?:{NAMES})(?<=Error))\b"
    return re.sub(rf"{code}|{word}|\*\*", converted, text)
