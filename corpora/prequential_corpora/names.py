"""Names of corpora: paths, `-` for standard input, and names with a prefix. It imports nothing, so that a start stays quick."""

PREFIXES = ("sample:", "hf:", "shards:")  # of names that are not paths


def is_path(name: str) -> bool:
    """Whether a name is that of a file or folder."""
    return name != "-" and not name.startswith(PREFIXES)
