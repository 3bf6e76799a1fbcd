"""The records of this program: what `evaluate`, `heldout` and `monorepo` write, and what later commands read.

A number `schema` changes when a name changes its meaning or is removed. New names may be added at any time.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict

import msgspec
from msgspec import UNSET, Meta, Struct

from prequential.errors import CorpusError
from prequential.files import PathLike, open_regular, read_regular, reading
from prequential.files.outputs import append_line
from prequential.files.strict_json import parse_json
from prequential.machine.facts import NO_BACKEND, git_commit, machine, versions
from prequential.online.health import Finding
from prequential.version import VERSION

if TYPE_CHECKING:
    from prequential.model.config import Config
    from prequential.online.runtime import Runtime

MAX_RECORD_BYTES = 1 << 26  # of a line
MAX_RECORDS_BYTES = 1 << 28  # of a file
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_NUMBER = 1e30  # products of a few such numbers are finite
MAX_COUNT = 1 << 62
MAX_TIME_S = 1e10
ABSENT: Any = UNSET  # the default of a field that older records lack, and that is not written then

Time = Annotated[datetime, Meta(tz=True)]  # ISO 8601, with its zone
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Positive = Annotated[float, Meta(ge=1 / MAX_NUMBER, le=MAX_NUMBER)]
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_TIME_S)]
WallSeconds = Annotated[float, Meta(ge=1e-9, le=MAX_TIME_S)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Size = Annotated[int, Meta(ge=1, le=MAX_COUNT)]


def says(sentence: str) -> Meta:
    """What a field means, for the page of records on the site."""
    return Meta(description=sentence)


# ---- writing


def record_of(form: type[Struct], *sources: object, **values: Any) -> dict[str, Any]:
    """A record of this form, as JSON values in the order of its fields.

    A field is taken from `values`, or is the attribute of that name of the first source that has it, or its default.
    """
    for name in form.__struct_fields__:
        for source in sources:
            if name not in values and hasattr(source, name):
                values[name] = getattr(source, name)
    return dict(msgspec.to_builtins(form(**values), enc_hook=lambda number: number.item()))  # of NumPy


def environment(runtime: Runtime, config: Config | None) -> dict[str, Any]:
    """Machine, versions, and how this runtime computes a learner of this configuration, as JSON values; for every record.

    config: None for a learner that is not ours. Raises InexactMachineError if no arithmetic is exact on this machine.
    """
    backend, device = NO_BACKEND, "cpu"
    if config is not None and config.gpt is not None:
        import torch

        from prequential.exact import matmul

        backend = matmul.choose("cpu", runtime.backend).name
        if accelerator := runtime.accelerator(config):
            device = f"cuda: {torch.cuda.get_device_name(accelerator.device)}"
    return {
        "machine": machine(),
        "threads": runtime.n_threads,
        "backend": backend,
        "kernels": runtime.kernels or "fused",
        "device": device,
        "versions": {"prequential": VERSION, **versions()},
        "git_commit": git_commit(),
    }


def now() -> str:
    """The time in UTC, in whole seconds, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest_of(data: bytes) -> str:
    """BLAKE2b-256 in hexadecimal digits."""
    return blake2b(data, digest_size=32).hexdigest()


def record_line(record: dict[str, Any]) -> bytes:
    """The record as one line of JSON. Reading it and calling this function again gives the same line."""
    return json.dumps(record, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def append_record(path: PathLike, record: dict[str, Any], mode: int = 0o777) -> None:
    """Appends one line to the file at `path`, made if it is missing. mode: that of what was measured. Raises OutputError."""
    append_line(path, record_line(record), mode)


# ---- reading


class Fields(dict[str, Any]):
    """A JSON object whose missing names raise CorpusError. where: its file, for this error."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise CorpusError(f"{self.where} is incomplete: it has no {name!r}")


def read_lines(path: PathLike) -> Iterator[bytes]:
    """The lines of a file of records, with their ends. Raises CorpusError for a file that cannot be read or is too long."""
    n_bytes = 0
    with reading(path), _decompressed(path) as file:
        while line := file.readline(MAX_RECORD_BYTES + 1):
            n_bytes += len(line)
            if len(line) > MAX_RECORD_BYTES or n_bytes > MAX_RECORDS_BYTES:
                limits = f"{MAX_RECORD_BYTES:,} bytes in a line, or {MAX_RECORDS_BYTES:,} in all"
                raise CorpusError(f"{str(path)!r} has more than {limits}")
            yield line


def _decompressed(path: PathLike) -> io.BufferedIOBase:
    """The file at `path`, open for reading; of a zstd frame, its contents. Raises OSError, CorpusError."""
    file = open_regular(path)
    if not file.peek(len(ZSTD_MAGIC)).startswith(ZSTD_MAGIC):
        return file
    import zstandard

    with file:
        frame = file.read(MAX_RECORDS_BYTES + 1)
    try:
        if 0 < zstandard.get_frame_parameters(frame).content_size <= MAX_RECORDS_BYTES:
            return io.BytesIO(zstandard.ZstdDecompressor().decompress(frame))
    except zstandard.ZstdError:
        pass
    raise CorpusError(f"{str(path)!r} is a damaged zstd frame, or does not say its length, or has too many bytes")


def read_records(path: PathLike, form: type[Struct], having: bytes = b"") -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of this form in the lines of a file that have these bytes, and where each is. Raises CorpusError."""
    for number, line in enumerate(read_lines(path), 1):
        if having in line:
            where = f"line {number} of {str(path)!r}"
            yield where, check_record(parse_object(line, where), form, where)


def read_object(path: PathLike) -> Any:
    """The single JSON value in the file at `path`; objects in it are Fields. Raises CorpusError."""
    with reading(path):
        data = read_regular(path, MAX_RECORD_BYTES)
    return parse_object(data, repr(str(path)))


def parse_object(data: bytes, where: str) -> Any:
    """The JSON value `data`; objects in it are Fields. Raises CorpusError, which names `where`."""
    try:
        return parse_json(data, lambda values: Fields(values, where))
    except ValueError as error:
        raise CorpusError(f"{where} is not JSON: {error}") from error


def check_record(value: Any, form: type[Struct], where: str) -> dict[str, Any]:
    """The value, if it has this form, and its kind and schema, if it has them. Raises CorpusError, which names `where`."""
    if not isinstance(value, dict):
        raise CorpusError(f"{where} is not a record")
    for field in msgspec.structs.fields(form):
        if field.name in ("kind", "schema") and value.get(field.name) != field.default:
            raise CorpusError(f"{where} is not a record of the {field.name} {field.default!r}")
    try:
        msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise CorpusError(f"{where} is not a complete record: {error}") from error
    return value


# What proves a code length:
DECODES_ANYWHERE, CODED_HERE = "archive", "archive, for this machine and these versions"
NOT_CODED = "code length, no archive"
REPORTED, IMPORTED = "reported by a training loop", "imported from a log: order and repeats unknown"
REPORTED_CODINGS = (REPORTED, IMPORTED)
WITHOUT_ARCHIVE = (NOT_CODED, *REPORTED_CODINGS)
SCORES_REPORTED = "reported, not computed here"  # costs of documents from a file of scores
PROOFS = "; ".join(f"`{proof}`" for proof in (DECODES_ANYWHERE, CODED_HERE, *WITHOUT_ARCHIVE))

LOSSES = ("frozen", "dynamic", "untrained")  # of a held-out measurement


# ---- learner, corpus and machine


class OtherLearner(TypedDict, total=False):
    """A learner that is not one of this program."""

    name: Required[str]
    arguments: Required[Annotated[dict[str, Any], says("what it was made with")]]
    n_symbols: Annotated[Size, says("size of its alphabet, if it is known")]
    run_symbols: Annotated[Size, says("symbols that it predicts at a time")]


class ConfigFields(TypedDict, total=False):
    """The complete configuration of a learner, as in an archive (FORMAT.md). Here are the fields that readers use."""

    learner: Annotated[OtherLearner, says("instead of all others: a learner of one's own")]
    seed: Annotated[Count, says("seed of the random numbers")]
    gpt: Annotated[dict[str, Any] | None, says("the GPT; null: none")]
    mixer: Annotated[dict[str, Any] | None, says("the context mixer; null: none")]


class Corpus(TypedDict, total=False):
    """A corpus. Further fields say where it comes from, by its kind."""

    n_bytes: Required[Size]
    blake2b: Required[Annotated[str, says("BLAKE2b-256 of the bytes, in hexadecimal digits")]]
    name: Annotated[str | None, says("name of the file, folder, repository or data set")]
    kind: Annotated[str, says("kind of source")]


class Environment(TypedDict, total=False):
    """Where and with what a measurement was made."""

    machine: Annotated[dict[str, Any], says("processor, cores, memory, system")]
    threads: Annotated[Count, says("threads of the learner")]
    mixing: Annotated[dict[str, Number], says("threads that mixed, and the share of bytes that several did")]
    backend: Annotated[str, says("arithmetic of matrix products; `none` for a learner without")]
    kernels: Annotated[str, says("compiled kernels: `fused` or `plain`")]
    device: Annotated[str, says("`cpu`, or the name of the accelerator")]
    versions: Annotated[dict[str, str | None], says("of this program, Python and packages")]
    git_commit: Annotated[str | None, says("commit of a checkout; -dirty if files differ")]


class BaselineFields(Struct, kw_only=True):
    """The size that another compressor reaches on the corpus. Its output was decoded again."""

    name: Annotated[str, says("name, as for --baselines")]
    label: Annotated[str, says("name with settings")]
    compressed_bytes: Size
    bits_per_byte: Positive = ABSENT
    wall_s: Annotated[Seconds, says("wall time of compression")]


# ---- evaluate


class LedgerEntry(Struct, frozen=True):
    """A part of the total cost."""

    entry: Annotated[str, says("what the bits are spent on")]
    bits: Annotated[Number, says("its bits; all entries add up to `total_bits`")]


class TableRow(TypedDict, total=False):
    """Some bytes of the corpus. Further fields by table."""

    n_bytes: Count
    bits: Annotated[dict[str, Number], says("what they cost, under each part of the learner")]


class CostTable(TypedDict, total=False):
    """Where the bits went, by one property of a byte. Every byte is in exactly one row."""

    rows: Required[Annotated[list[TableRow], says("kinds of bytes")]]
    each: Annotated[dict[str, list[Number]], says("of `documents`: `n_bytes` and `bits` of all, if at most 1,000")]


class Passage(TypedDict):
    """A stretch of the corpus with the cost of each byte."""

    name: Annotated[str, says("where it is")]
    position: Annotated[Count, says("its first byte")]
    text: Annotated[str, says("its bytes in base64")]
    bits: Annotated[list[Number], says("the cost of each byte, rounded to 0.01")]


class Reported(Struct, kw_only=True):
    """What a training loop, or its log, says about the run. RECORDING.md explains the checks."""

    source: Annotated[str, says("`training loop`, or the name of a log")]
    n_steps: Annotated[Count, says("steps of the optimiser, or lines of a log")] = ABSENT
    counts_repeats: Annotated[bool, says("rows seen before count, too")] = ABSENT
    new: Annotated[dict[str, Number], says("rows seen for the first time; their tokens, bytes and cost")] = ABSENT
    repeated: Annotated[dict[str, Number], says("rows seen before")] = ABSENT
    n_not_finite: Annotated[Count, says("rows that are in no sum: their loss is not a finite number")] = ABSENT
    n_negative: Annotated[Count, says("rows that are in no sum: a loss is negative")] = ABSENT
    n_outside: Annotated[Count, says("rows that are in no sum: a target is no id of the vocabulary")] = ABSENT
    n_rows_after_last_step: Annotated[Count, says("rows after the last step; in no sum")] = ABSENT
    n_grams: Annotated[Count, says("new rows: sampled stretches of 32 targets, one in 256")] = ABSENT
    n_grams_seen: Annotated[Count, says("those of them that an earlier row had")] = ABSENT
    all_rows_kept: Annotated[bool, says("all rows and samples were compared with all earlier ones")] = ABSENT
    order: Annotated[str, says("digest of the rows of each step, in the order of steps")] = ABSENT
    tokenizer: Annotated[dict[str, str | int], says("`name`, or `bytes`; `n_symbols`; `digest` of its bytes")] = ABSENT
    numbered: Annotated[bool, says("rows were told apart by their numbers in the data")] = ABSENT
    n_checked_steps: Annotated[Count, says("steps whose calls of the model were checked")] = ABSENT
    n_audits: Annotated[Count, says("checks for a look ahead")] = ABSENT
    not_audited: Annotated[str, says("why such a check could not be made; empty: each was made")] = ABSENT
    n_parameters: Annotated[Count | None, says("parameters of the model; null: not known")] = ABSENT
    text: Annotated[dict[str, str | int], says("declared text: `digest`, sizes, samples of what was scored")] = ABSENT
    rescored: Annotated[dict[str, Number], says("rows scored again under the final weights")] = ABSENT
    excess_bits: Annotated[Number, says("code length less that under the final weights, of equal rows")] = ABSENT


class EvaluationRecord(Struct, frozen=True, kw_only=True):
    """What `evaluate` measured: `record.jsonl` of a run folder. It suffices to repeat the run."""

    schema: Literal[1] = 1
    kind: Literal["evaluation"] = "evaluation"
    time: Annotated[Time, says("end of the run, in UTC")] = ABSENT
    coding: Annotated[str, says(f"what proves the figures: {PROOFS}")] = ABSENT
    corpus: Annotated[Corpus, says("what was coded")]
    limit_bytes: Annotated[Count | None, says("`--limit`; null: the complete corpus was read")] = None
    config: Annotated[ConfigFields, says("the learner")] = ABSENT
    archive_bits: Annotated[Count, says("size of the archive: the description length")] = ABSENT
    bits_per_byte: Annotated[Positive, says("description length per byte of the corpus")] = ABSENT
    code_bits: Annotated[Positive, says("ideal code length: the sum of -log2 p of all symbols")] = ABSENT
    code_bits_per_byte: Annotated[Positive, says("ideal code length per byte of the corpus")] = ABSENT
    code_nats_per_byte: Annotated[Number, says("the same in nats: the mean log loss")] = ABSENT
    archive_bytes: Annotated[Size, says("size of the archive = header + payload + container")] = ABSENT
    header_bytes: Annotated[Count, says("header: configuration and description of the corpus")] = ABSENT
    payload_bytes: Annotated[Count, says("coded symbols")] = ABSENT
    container_bytes: Annotated[Count, says("heads of blocks, checksums, index, end")] = ABSENT
    ledger: Annotated[list[LedgerEntry], says("the parts of the total cost")] = ABSENT
    decoder_bytes: Annotated[Count, says("zipped source of the decoder; 0: not known")] = 0
    n_configs: Annotated[Size, says("the configuration is declared the best of so many")] = 1
    n_seeds: Annotated[Size, says("the seed is declared the best of so many")] = 1
    total_bits: Annotated[Positive, says("total cost: archive, decoder, vocabulary, and the choice")] = ABSENT
    benchmark_bytes: Annotated[Count, says("archive and decoder, as benchmarks add them")] = ABSENT
    parts: Annotated[dict[str, Number], says("ideal bits of `model`, `gpt` and `mixer`")] = ABSENT
    crossings: Annotated[dict[str, Count | None], says("the archive stays below a baseline from this byte")] = {}
    tables: Annotated[dict[str, CostTable], says("where the bits went, by name of the table")] = {}
    passages: Annotated[list[Passage], says("short stretches of the corpus")] = []
    wall_s: Annotated[WallSeconds, says("wall time of coding")] = ABSENT
    bytes_per_s: Annotated[Positive, says("speed of coding")] = ABSENT
    verified: Annotated[bool, says("the archive was decoded and every byte compared")] = False
    verify_wall_s: Annotated[WallSeconds | None, says("wall time of decoding")] = None
    verify_bytes_per_s: Annotated[Positive | None, says("speed of decoding")] = None
    peak_memory_bytes: Annotated[Count, says("largest resident memory up to the end of coding")] = 0
    baselines: Annotated[list[BaselineFields], says("other compressors on the corpus")] = []
    notes: Annotated[list[str], says("baselines that were left out, and why")] = []
    findings: Annotated[list[Finding], says("what was unusual")] = []
    environment: Annotated[Environment, says("machine and program")] = ABSENT


class TrainingRecord(EvaluationRecord, frozen=True, kw_only=True):
    """What a training loop, or its log, reported: the fields of `EvaluationRecord`, and these."""

    n_tokens: Annotated[Size, says("tokens that count")]
    bits_per_token: Annotated[Number, says("code length per token")]
    nats_per_token: Annotated[Number, says("the same in nats: the mean loss")]
    tokens_per_byte: Annotated[Positive, says("tokens that count, per byte")]
    reported: Annotated[Reported, says("what the loop says about itself")]


class UnfinishedRecord(Struct, kw_only=True):
    """What a training run has so far: a line of `unfinished.jsonl` in its draft. The last complete line counts."""

    schema: Literal[1] = 1
    kind: Literal["unfinished"] = "unfinished"
    time: Annotated[Time, says("time of the line, in UTC")]
    name: Annotated[str, says("name of the learner")]
    n_steps: Annotated[Count, says("steps of the optimiser")]
    n_bytes: Annotated[Count, says("bytes that count")]
    code_bits: Annotated[Number, says("what they cost")]


class PackedRun(Struct, kw_only=True):
    """A line of a file that `runs pack` wrote."""

    kind: Literal["packed run"] = "packed run"
    name: Annotated[str, Meta(pattern="^[^/]+$"), says("name of the run folder")]
    record: Annotated[dict[str, Any], says("its record.jsonl")]
    curves: Annotated[bytes, says("its curve.parquet in base64")]


# ---- heldout and monorepo


class DocumentGroup(Struct, kw_only=True):
    """Some documents, or some of their bytes. Documents of a window may have equal names."""

    name: Annotated[str, says("what they have in common; of a commit, its id")]
    n_documents: Count
    n_bytes: Count
    bits: Annotated[Number, says("what they cost, exactly")]
    bits_per_byte: Annotated[Number | None, says("null without bytes")] = ABSENT
    number: Annotated[Count, says("of one document: its place among those that were scored, from 0")] = ABSENT
    commit: Annotated[str | None, says("of one document of a window: the commit that brought it")] = ABSENT
    date: Annotated[str, says("of a commit: its time")] = ABSENT


class ClusterFields(Struct, kw_only=True):
    """The costs of clusters of documents, which depend on each other, in the order of the corpus: at most 1,000."""

    by: Annotated[str, says("what a cluster is: document, folder, commit, group (of neighbours), or a field")] = ABSENT
    n_documents: Annotated[Count, says("documents that are not empty")]
    n_bytes: Annotated[list[Count], says("bytes of each cluster")]
    bits: Annotated[list[Number], says("bits of each cluster")]


class HeldoutLoss(Struct, kw_only=True):
    """One code length of a test corpus. Lists of groups begin with the costliest.

    Sums agree exactly: documents + outside = total; all documents, all languages, and clean + dirty each add up to `documents`.
    """

    total: Annotated[DocumentGroup, says("all bytes")]
    documents: Annotated[DocumentGroup, says("bytes in documents: the held-out loss")]
    outside: Annotated[DocumentGroup, says("the other bytes")]
    bits_per_byte: Annotated[Number | None, says("the held-out loss")] = ABSENT
    interval: Annotated[Any, says("95 % interval of it over clusters like these, or null")] = ABSENT
    macro_documents: Annotated[Number | None, says("mean of bits/byte, documents count equally")] = ABSENT
    macro_languages: Annotated[Number | None, says("mean of bits/byte, languages count equally")] = ABSENT
    clean: Annotated[DocumentGroup | None, says("documents little seen in training, if that was measured")] = None
    dirty: Annotated[DocumentGroup | None, says("documents largely seen in training")] = None
    novel: Annotated[DocumentGroup | None, says("bytes in no match of 50 bytes or more")] = None
    languages: Annotated[list[DocumentGroup], says("by language")] = ABSENT
    each: Annotated[list[DocumentGroup], says("the 1,000 costliest documents; not in a series")] = ABSENT
    all_others: Annotated[DocumentGroup | None, says("the other documents; not in a series")] = None
    clusters: Annotated[ClusterFields, says("costs of clusters of documents, without their names")]
    kinds: Annotated[list[DocumentGroup] | None, says("of a window: new files, and lines added to old ones")] = None
    commits: Annotated[list[DocumentGroup] | None, says("of a window: by commit, in order; not in a series")] = None


class OrderTest(Struct, kw_only=True):
    """What documents cost in the order of their file, and in drawn orders. p_value: share of all that cost no more."""

    canonical_bits: Number
    shuffled_bits: list[Number]
    p_value: Number


class MeasuredCorpus(TypedDict, total=False):
    """A training or test corpus. A window: the text that some commits of a repository brought."""

    source: Annotated[str, says("of training: corpus, run or model; static model or scores: not known here")]
    name: str
    n_bytes: Annotated[Count, says("bytes that were scored, or the length")]
    whole_bytes: Annotated[Count, says("length of the complete corpus")]
    blake2b: Annotated[str, says("BLAKE2b-256 of the bytes")]
    limit_bytes: Annotated[Count | None, says("`--limit`; null: none")]
    n_commits: Annotated[Count, says("of a window: its commits")]
    since: Annotated[str | None, says("the commit before the window; null: it begins with the history")]
    until: Annotated[str, says("the last commit of a window, or the commit of a tree")]
    until_date: Annotated[Time, says("the time of this commit")]
    rules: Annotated[str, says("digest of the rules that choose files")]
    excluded: Annotated[str, says("files of the window that were left out, by reason")]


class HeldoutRecord(Struct, kw_only=True):
    """What `heldout` measured: a line of `heldout.jsonl`."""

    schema: Literal[1] = 1
    kind: Literal["heldout"] = "heldout"
    time: Annotated[Time, says("end of the measurement, in UTC")] = ABSENT
    train: Annotated[MeasuredCorpus, says("training corpus")]
    test: Annotated[MeasuredCorpus, says("test corpus")]
    config: Annotated[ConfigFields, says("the learner")]
    learner_digest: Annotated[str, says("of the learner, of a model's safetensors files, or of scores")] = ABSENT
    coding: Annotated[str, says(f"what proves it: `{NOT_CODED}`; `{REPORTED}`; `{SCORES_REPORTED}`")] = ABSENT
    policy: Annotated[str | None, says("which symbols predict a frozen one, in words")] = None
    frozen: Annotated[HeldoutLoss | None, says("loss without learning from the test corpus")] = None
    dynamic: Annotated[HeldoutLoss | None, says("loss while learning continues")] = None
    untrained: Annotated[HeldoutLoss | None, says("loss of such a learner without training")] = None
    orders: Annotated[OrderTest | None, says("of a static model: whether it knows the order")] = None
    saved_bits: Annotated[Number | None, says("what training saved: untrained minus dynamic")] = None
    baselines: Annotated[list[BaselineFields], says("other compressors on the test corpus alone")] = []
    overlap: Annotated[Any, says("text in common with the training corpus (DATA.md), or null")] = None
    costs: Annotated[list[Number], says("of a trained model: bits of each document, in the order of the corpus")] = (
        ABSENT
    )
    key: Annotated[str, says("digest of all that the losses depend on: an equal request finds this record")] = ABSENT
    environment: Environment = ABSENT


class ScoreFields(Struct, kw_only=True):
    """The cost of a document, for `heldout --scores`."""

    id: Annotated[str, says("as `heldout --documents` wrote it")]
    nats: Annotated[float, Meta(ge=0.0, le=MAX_NUMBER), says("the sum of -ln p over its tokens")]
    bytes: Annotated[Size, says("length of what was scored")]


class MonorepoRecord(HeldoutRecord, kw_only=True):
    """A point of a series that `monorepo` measured: the fields of `HeldoutRecord`, with all three losses, and these."""

    kind: Literal["monorepo"] = "monorepo"  # type: ignore[assignment]
    frozen: HeldoutLoss
    dynamic: HeldoutLoss
    untrained: HeldoutLoss
    environment: Environment
    setting: Annotated[dict[str, Any], says("all points have it: learner, languages, limit of training and context")]
