"""Sources of bytes: files, standard input, folders, data sets, shards, git histories and bundled samples."""

PREFIXES = ("sample:", "hf:", "shards:", "git:")  # of names of corpora that are not paths


def is_path(name: str) -> bool:
    """Whether a corpus is named by the path of a file or folder. This module imports nothing, so that a start stays quick."""
    return name != "-" and not name.startswith(PREFIXES)
