"""Sources of bytes: files, standard input, folders, data sets, shards, git histories and bundled samples."""

PREFIXES = ("sample:", "hf:", "shards:", "git:")  # of names of corpora that are not paths


def is_path(name: str) -> bool:
    """Whether a corpus is named by the path of a file or folder. This module imports nothing, so that a start stays quick."""
    return name != "-" and not name.startswith(PREFIXES)


def is_data_set(value: object) -> bool:
    """Whether this is a data set of the library `datasets`, or a column of one. (A data frame selects columns otherwise.)"""
    return hasattr(getattr(value, "source", value), "select_columns")


def is_stream(value: object) -> bool:
    """Whether this gives values one after another and only once, such as a generator, and is not a file."""
    return hasattr(value, "__next__") and not hasattr(value, "read")
