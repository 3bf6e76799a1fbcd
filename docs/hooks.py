"""Hooks of the site (mkdocs.yml). The documents are written to be read on their own, too; here they become pages of a site."""

import re
import sys
from pathlib import Path
from typing import Any

import griffe
from markdown.extensions.toc import slugify
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

import prequential

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
import command_reference  # noqa: E402 - of this folder
import notebook_pages  # noqa: E402
import record_fields  # noqa: E402

LOG = get_plugin_logger(__name__)
NAMES = "|".join(prequential.__all__)
PARTS = re.compile(
    rf"^```.*?^```|^ {{4}}[^\n]*|`prequential\.(?P<name>{NAMES})`|`[^`]*`"  # code, which stays as it is
    r"|\[(?P<file>[A-Z]+\.md)\]\((?P<page>[A-Z][^)\s]*)\)|\bdocs/(?P<cited>[A-Z]+\.md)\b"
    r"|\[(?P<text>[^\]]*)\]\((?P<target>\.\./[^)\s]*)\)"
    r"|(?P<formula>\]\[)"  # as in w[i][j]; it is no reference
    r"|^(?P<indent> {2,3})(?=\S)",  # of a list item; Python-Markdown needs four spaces
    re.MULTILINE | re.DOTALL,
)


def on_files(files: Files, *, config: Any) -> None:
    """Adds the pages that no file has: of records, of commands and of notebooks."""
    pages: dict[str, str | bytes] = {"RECORDS.md": record_fields.page(), "COMMANDS.md": command_reference.page()}
    for name, content in (pages | notebook_pages.pages(DOCS.parent / "notebooks")).items():
        files.append(File.generated(config, name, content=content))


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page as the site needs it: links have titles.

    A link to a notebook leads to its page. Another one out of docs/ becomes its text, because that file is not on the site.
    """

    def converted(part: re.Match[str]) -> str:
        if part["name"]:
            return _linked(part["name"], part[0])
        if part["formula"]:
            return r"]\["
        if part["indent"]:
            return " " * 4
        if name := part["file"] or part["cited"]:
            link = part["page"] or "../" * page.file.src_uri.count("/") + name
            return f"[{_title(link, page)}]({link})"
        if part["target"] and part["target"].endswith(".ipynb"):
            return f"[{part['text']}](notebooks/{Path(part['target']).stem}.md)"
        if part["target"] and not (target := _file_of(part["target"], page)).is_relative_to(DOCS):
            if not target.exists():
                LOG.warning("%s links to %s, which does not exist", page.file.src_uri, part["target"])
            return part["text"]
        return part[0]

    return PARTS.sub(converted, markdown)


def _linked(name: str, text: str) -> str:
    """A reference to a public name."""
    return f"[{text}][prequential.{name}]"


def _title(link: str, page: Any) -> str:
    """The heading that a link to a document leads to, up to its colon; of a page that no file has, its name."""
    path, anchor = _file_of(link, page), link.partition("#")[2]
    if not path.exists():
        return path.stem.capitalize()
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    found = [each for each in headings if slugify(each, "-") == anchor]
    return (found or headings)[0].partition(":")[0]


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
