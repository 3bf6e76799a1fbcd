"""The samples of the package: real texts, as files, for demonstrations and tests. The package must be installed unzipped."""

from importlib.resources import as_file, files
from pathlib import Path

from prequential.errors import CorpusError


def samples() -> dict[str, Path]:
    """All samples, from name to file, sorted by name. samples/README.md states their origins and licences."""
    with as_file(files("prequential_corpora") / "samples") as folder:
        return {path.stem: path for path in sorted(folder.glob("*.txt"))}


def sample_path(name: str) -> Path:
    """The file of one sample. Raises CorpusError for an unknown name; the message lists all names.

    Examples:
        >>> import prequential
        >>> len(prequential.sample_path("christmas_carol").read_bytes())
        158515
    """
    paths = samples()
    if name not in paths:
        raise CorpusError(f"there is no sample {name!r}; choose from {', '.join(paths)}")
    return paths[name]
