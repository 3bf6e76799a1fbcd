"""The samples that come with the package: real texts for demonstrations and tests that need no network.

They are files, not resources inside an archive: a corpus is memory-mapped, so the package is installed unzipped.
"""

from importlib.resources import as_file, files
from pathlib import Path

from prequential.errors import CorpusError


def samples() -> dict[str, Path]:
    """Every bundled sample, name -> file, sorted by name. Origins and licences: samples/README.md."""
    with as_file(files("prequential.corpora") / "samples") as folder:
        return {path.stem: path for path in sorted(folder.glob("*.txt"))}


def sample_path(name: str) -> Path:
    """The file of one bundled sample. Raises CorpusError that lists the names there are."""
    paths = samples()
    if name not in paths:
        raise CorpusError(f"no sample {name!r}; there are: {', '.join(paths)}")
    return paths[name]
