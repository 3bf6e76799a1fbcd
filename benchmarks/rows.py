"""benchmarks/results.csv: a row for each run of a program over a file. Imports the standard library only (see peers.py)."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

ROWS = Path(__file__).with_name("results.csv")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run of one program over one file, as texts; "" where something is not known.

    version: of another program; of prequential the commit. decoded: "yes" if every byte was restored and compared. seconds and
    peak_bytes are of compression; decoder_bytes is the zipped source of the decoder.
    """

    file: str
    bytes: str
    blake2b: str
    program: str
    level: str = ""
    version: str
    date: str
    machine: str
    archive_bytes: str
    code_bits: str = ""
    seconds: str
    decode_seconds: str = ""
    peak_bytes: str = ""
    decoder_bytes: str = ""
    decoded: str
    config: str = ""

    @property
    def bits_per_byte(self) -> float:
        return 8 * int(self.archive_bytes) / int(self.bytes)


def cpu(machine: Mapping[str, Any]) -> str:
    """The processor's name without its marks: "Intel Xeon"."""
    return str(machine["cpu"]).replace("(R)", "").removesuffix(" Processor")


def read(path: Path) -> list[Row]:
    """The rows of the file, the oldest first; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


def append(path: Path, rows: Iterable[Row]) -> None:
    """Appends rows to the file, which begins with the names of the columns."""
    with path.open("a", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if not file.tell():
            table.writeheader()
        table.writerows(map(asdict, rows))
