"""The ledger of an archive: what each of its bits is spent on. Bits per byte, coder overhead and nats are computed here only.

docs/METHOD.md defines code length, description length and total cost.
"""

import ast
import io
import math
import zipfile
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from prequential.machine.kernel_cache import package_folder
from prequential.records import LedgerEntry

if TYPE_CHECKING:
    from prequential.online.coding import Progress

VOCABULARY = "vocabulary of the tokenizer, compressed"
NATS_PER_BIT = math.log(2.0)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Totals of a finished archive, in bytes unless the name says bits.

    n_bytes: length of the original. code_bits: ideal code length under the learner's frequencies, raw blocks included; exact, in
    units of 2**-22 bits.

    Examples:
        >>> import prequential
        >>> ledger = prequential.Ledger(
        ...     n_bytes=1000, archive_bytes=250, header_bytes=20, payload_bytes=200, code_bits=1590.0
        ... )
        >>> ledger.archive_bits, ledger.bits_per_byte, ledger.container_bytes
        (2000, 2.0, 30)
    """

    n_bytes: int
    archive_bytes: int
    header_bytes: int
    payload_bytes: int
    code_bits: float

    @classmethod
    def from_progress(cls, done: "Progress", **more: Any) -> Self:
        """The ledger of a finished archive. done: the last Progress that `online.coding.compress` yields. more: other fields."""
        return cls(**{each.name: getattr(done, each.name) for each in fields(Ledger)}, **more)

    @classmethod
    def of_code_length(cls, n_bytes: int, code_bits: float) -> Self:
        """The ledger of a corpus of which only the code length is known. It counts as an archive of so many whole bytes."""
        n_coded = math.ceil(code_bits / 8)
        return cls(n_bytes=n_bytes, archive_bytes=n_coded, header_bytes=0, payload_bytes=n_coded, code_bits=code_bits)

    @property
    def container_bytes(self) -> int:
        """Block heads, checksums, index and end."""
        return self.archive_bytes - self.header_bytes - self.payload_bytes

    @property
    def archive_bits(self) -> int:
        """The prequential description length."""
        return 8 * self.archive_bytes

    @property
    def bits_per_byte(self) -> float:
        """Archive bits per byte of the original; infinite for an empty original, because its archive has a header."""
        return bits_per_byte(self.archive_bytes, self.n_bytes)

    @property
    def code_bits_per_byte(self) -> float:
        """The mean log loss of the learner, in bits."""
        return self.code_bits / self.n_bytes if self.n_bytes else 0.0

    @property
    def code_nats_per_byte(self) -> float:
        """The mean log loss in nats."""
        return self.code_bits_per_byte * NATS_PER_BIT

    def entries(self, *, decoder_bytes: int = 0, tokenizer_bytes: int = 0) -> list[LedgerEntry]:
        """The parts of the total cost; their bits add up to it. decoder_bytes: its zipped source. tokenizer_bytes: compressed."""
        vocabulary = [LedgerEntry(VOCABULARY, 8.0 * tokenizer_bytes)] if tokenizer_bytes else []
        return [
            LedgerEntry("header", 8.0 * self.header_bytes),
            LedgerEntry("ideal code length", self.code_bits),
            LedgerEntry("coder overhead", 8 * self.payload_bytes - self.code_bits),
            LedgerEntry("container", 8.0 * self.container_bytes),
            LedgerEntry("decoder source, zipped", 8.0 * decoder_bytes),
            *vocabulary,
            *choice_entries(1, 1),
        ]


def choice_entries(n_configs: int, n_seeds: int) -> list[LedgerEntry]:
    """The bits that name the chosen configuration and seed among those that were tried."""
    return [
        LedgerEntry(f"choice among {n_configs} configurations", math.log2(n_configs)),
        LedgerEntry(f"choice among {n_seeds} seeds", math.log2(n_seeds)),
    ]


def bits_per_byte(compressed_bytes: int, n_bytes: int) -> float:
    """Bits for each byte of the original; infinite for an empty one."""
    return 8 * compressed_bytes / n_bytes if n_bytes else math.inf


# ---- the decoder: the zipped source of the modules that plain decoding imports, which a receiver needs
#
# The Hutter prize and the Large Text Compression Benchmark add such a decoder to the archive. Python and the libraries are not
# counted, like the operating system there.

DECODER = (
    "prequential/__init__.py", "prequential/arguments.py", "prequential/decompression.py", "prequential/errors.py",
    "prequential/printable.py", "prequential/version.py", "prequential/files/*.py", "prequential/machine/*.py",
    "prequential/exact/*.py", "prequential/model/*[!n].py", "prequential/model/gpt/[!d]*.py", "prequential/model/mixer/*.py",
    *(f"prequential/online/{name}.py" for name in (
        "__init__", "checkpoint", "coding", "costs", "loop", "runtime", "tensor_file",
    )),
    *(f"prequential_codecs/{name}.py" for name in ("__init__", "archive*", "bit_coder", "byte_source")),
    *(f"prequential_corpora/{name}.py" for name in ("__init__", "corpus", "tree_restore")),
)  # fmt: skip
EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of every file in the zip, so that its size depends on the source alone
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def decoder_zip() -> bytes:
    """The zip of all source files that decoding imports, without comments and docstrings, in the order of their names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(decoder_modules().items()):
            member = name.replace(".", "/") + ("/__init__.py" if path.name == "__init__.py" else ".py")
            source = code_of(path.read_text(encoding="utf-8"))
            archive.writestr(zipfile.ZipInfo(member, EPOCH), source, zipfile.ZIP_DEFLATED, 9)
    return file.getvalue()


def code_of(source: str) -> str:
    """The same program without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree) + "\n"


def decoder_modules() -> dict[str, Path]:
    """The source file of each module that decoding imports, by the module's name."""
    modules = {}
    for pattern in DECODER:
        folder = package_folder(pattern.partition("/")[0]).parent
        for path in folder.glob(pattern):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            modules[name.removesuffix(".__init__")] = path
    return modules
