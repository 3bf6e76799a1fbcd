"""A data set as a corpus: the text column of its rows, each followed by a separator, through the `datasets` package.

The package is optional and slow to import, so it is imported when a data set is opened. Four of its properties are avoided:

- If the hub does not answer, it retries for a long time. So the hub is first asked once, with a time limit.
- If loading a revision fails, it uses *any* revision in its cache. So the loaded commit is compared with the requested one.
- In CSV, it empties `NA` and `null`, rewrites numbers and skips blank lines. So it is told that the column holds text.
- In JSON, it takes texts for times if a part of a file has nothing else, and rewrites them. So texts of that form are refused.
"""

import csv
import hashlib
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from prequential.errors import CorpusError, MissingDependencyError
from prequential.files import temporary_folder
from prequential_corpora.chunks import unwritable
from prequential_corpora.corpus import FirstPass, RowDocuments
from prequential_corpora.dataset_spec import (
    CARDS,
    DatasetSpec,
    check_array,
    check_card,
    check_contents,
    check_data_files,
    check_folder,
    check_path,
)

BUILDERS = {".json": "json", ".jsonl": "json", ".csv": "csv", ".txt": "text", ".parquet": "parquet"}
BATCH_N_ROWS = 64  # a row can be a complete book
HUB_TIMEOUT_S = 5.0
COMMIT = re.compile(r"[0-9a-f]{40}")
# of a CSV reader that interprets nothing; without index_col, rows with more fields than the header lose their first one
CSV_AS_WRITTEN = {"na_filter": False, "skip_blank_lines": False, "index_col": False}
MAX_HEADER_LENGTH = 1 << 20
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")  # as Arrow writes one


class TextRows:
    """The text column of a loaded data set. A null is an empty text."""

    def __init__(self, spec: DatasetSpec, table: Any, commit: str | None) -> None:
        self._spec, self._table, self._commit = spec, table, commit
        self._separator = spec.separator.encode()
        strings = [n for n, f in table.features.items() if getattr(f, "dtype", None) in ("string", "large_string")]
        self._column = _text_column(spec, strings)
        self._is_json = table.info.builder_name == "json"

    def chunks(self) -> Iterator[bytes]:
        """The corpus, one row and its separator at a time. Each call starts at the first row."""
        for text in self._texts():
            yield (text or "").encode() + self._separator

    def first_pass(self) -> FirstPass:
        """Reads all rows once."""
        documents, digest = RowDocuments(len(self._separator)), hashlib.blake2b(digest_size=32)
        n_null_rows = 0
        for text in self._texts():
            document = (text or "").encode()
            digest.update(document + self._separator)
            documents.append(len(document))
            n_null_rows += text is None
        return FirstPass(documents.n_bytes, digest.hexdigest(), documents, self._origin(len(documents), n_null_rows))

    def _texts(self) -> Iterator[str | None]:
        with _foreign_errors(self._spec):
            for batch in self._table.select_columns([self._column]).iter(batch_size=BATCH_N_ROWS):
                for text in batch[self._column]:
                    if self._is_json and text is not None and TIME.fullmatch(text):
                        raise CorpusError(
                            f"{self._spec.source!r} has the text {text!r}: the `datasets` package may have written this time "
                            "differently; read JSON lines as shards:"
                        )
                    yield text

    def _origin(self, n_rows: int, n_null_rows: int) -> dict[str, str | int | None]:
        """The JSON values that identify the corpus. `commit` is the commit of the revision, which may be a tag."""
        return {
            "revision": self._spec.revision,
            "commit": self._commit,
            "config": self._spec.config,
            "split": self._spec.split,
            "column": self._column,
            "separator": self._spec.separator,
            "fingerprint": self._table._fingerprint,
            "n_rows": n_rows,
            "n_null_rows": n_null_rows,
        }


@contextmanager
def load_rows(spec: DatasetSpec) -> Iterator[TextRows]:
    """The rows that `spec` names. Raises CorpusError, OutputError without temporary files, MissingDependencyError."""
    datasets = _import_datasets()
    try:
        scratch_folder = tempfile.TemporaryDirectory(dir=temporary_folder(), prefix="prequential-")
    except OSError as error:
        raise unwritable(error) from error
    with scratch_folder as scratch:
        with _quiet(datasets), _foreign_errors(spec):
            if spec.revision is None:
                commit, builder = None, _local_builder(datasets, spec, scratch)
            else:
                commit = _commit(datasets, spec.source, spec.revision)
                builder = _hub_builder(datasets, spec, commit)
            builder.download_and_prepare()
            rows = TextRows(spec, builder.as_dataset(split=spec.split), commit)
        yield rows


def _import_datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingDependencyError("data sets need the `datasets` package: pip install 'prequential[hub]'") from error
    if int(datasets.__version__.split(".")[0]) < 4:
        raise MissingDependencyError(
            "data sets need version 4 or later of the `datasets` package, because older versions run code of a data set: "
            "pip install 'prequential[hub]'"
        )
    return datasets


def _local_builder(datasets: Any, spec: DatasetSpec, cache_dir: str) -> Any:
    path = Path(spec.source).absolute()  # a relative name could also name a builder
    if path.is_dir():
        folder = path.resolve()
        check_folder(folder)
        load = partial(datasets.load_dataset_builder, str(folder), spec.config, cache_dir=cache_dir)
        builder = load()
        check_data_files(builder, folder)
        return _as_written(datasets, spec, builder, load)
    if path.suffix not in BUILDERS:
        raise CorpusError(f"{spec.source!r} is not a data set file; known are {', '.join(BUILDERS)}")
    check_path(path)
    check_contents(path)
    files = [str(path)]
    load = partial(
        datasets.load_dataset_builder, BUILDERS[path.suffix], spec.config, data_files=files, cache_dir=cache_dir
    )
    return _as_written(datasets, spec, load(), load)


def _hub_builder(datasets: Any, spec: DatasetSpec, commit: str) -> Any:
    import huggingface_hub

    for name in CARDS:
        with suppress(huggingface_hub.errors.EntryNotFoundError):  # also if it is not in the cache
            card = huggingface_hub.hf_hub_download(spec.source, name, repo_type="dataset", revision=commit)
            check_card(Path(card))
    load = partial(datasets.load_dataset_builder, spec.source, spec.config, revision=commit)
    builder = load()
    if builder.hash != commit:
        raise CorpusError(
            f"the cache has another revision of {spec.source!r} than {commit}; load that one once with a network"
        )
    return _as_written(datasets, spec, builder, load)


def _as_written(datasets: Any, spec: DatasetSpec, builder: Any, load: Callable[..., Any]) -> Any:
    """The builder; for CSV, another one that `load` makes, whose only column is the text column, as it is written."""
    if builder.info.builder_name == "json" and spec.revision is None:
        for path in chain.from_iterable(builder.config.data_files.values()):
            check_array(Path(path))
    if builder.info.builder_name != "csv":
        return builder
    if builder.name != "csv":  # offline: only the cache, where the package may have guessed
        raise CorpusError(
            f"offline, the CSV tables of {spec.source!r} cannot be read as they are written; download them and name the folder"
        )
    headers = [builder.config.names] if builder.config.names else _csv_headers(builder)
    column = _text_column(spec, list(dict.fromkeys(headers[0])))
    if any(names.count(column) > 1 for names in headers):  # the package would take the first one
        raise CorpusError(f"{spec.source!r} has several columns {column!r}; give each column its own name")
    return load(features=datasets.Features({column: datasets.Value("string")}), **CSV_AS_WRITTEN)


def _csv_headers(builder: Any) -> list[list[str]]:
    """The first row of each file."""
    import fsspec  # type: ignore[import-untyped]

    config, headers = builder.config, []
    for path in chain.from_iterable(config.data_files.values()):
        encoding = config.encoding or "utf-8-sig"
        with fsspec.open(path, "rt", encoding=encoding, newline="", compression="infer") as file:
            lines = iter(lambda: file.readline(MAX_HEADER_LENGTH), "")
            headers.append(next(csv.reader(lines, delimiter=config.sep, quotechar=config.quotechar), []))
    return headers


def _commit(datasets: Any, name: str, revision: str) -> str:
    """The full hash of the commit that `revision` names. Asks the hub once; with HF_HUB_OFFLINE=1 it accepts a full hash."""
    if datasets.config.HF_HUB_OFFLINE:
        if COMMIT.fullmatch(revision):
            return revision
        raise CorpusError(f"{name}@{revision} cannot be looked up offline; give the commit's full 40-digit hash")
    import huggingface_hub

    try:
        return str(huggingface_hub.HfApi().dataset_info(name, revision=revision, timeout=HUB_TIMEOUT_S).sha)
    except huggingface_hub.errors.HfHubHTTPError as error:
        raise CorpusError(
            f"the hub does not give {name}@{revision} to you: {_one_line(error)}; check name, revision and login"
        ) from error
    except Exception as error:
        raise CorpusError(
            f"cannot reach the hub for {name}@{revision}: {_one_line(error)}; "
            "check the network, or set HF_HUB_OFFLINE=1 to use a commit that is in the cache"
        ) from error


def _text_column(spec: DatasetSpec, strings: list[str]) -> str:
    """strings: the columns that hold strings."""
    if spec.column is None and len(strings) == 1:
        return strings[0]
    if spec.column is not None and spec.column in strings:
        return spec.column
    wanted = "one string column" if spec.column is None else f"a string column {spec.column!r}"
    raise CorpusError(f"{spec.source!r} does not have {wanted}; choose with ?column= from {strings}")


@contextmanager
def _foreign_errors(spec: DatasetSpec) -> Iterator[None]:
    """Turns every exception of the package into CorpusError. The package chains exceptions; the first one has the reason."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Length of header or names")  # pandas would drop fields of a row
            yield
    except (CorpusError, MissingDependencyError):
        raise
    except Exception as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        raise CorpusError(f"cannot load the data set {spec.source!r}: {_one_line(root)}") from error


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Disables the package's progress bars and log lines inside the block, and restores the caller's settings after it."""
    had_bars, verbosity = not datasets.are_progress_bars_disabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        if had_bars:
            datasets.enable_progress_bars()
