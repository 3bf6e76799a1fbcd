"""Coverage-guided fuzzing of all code that reads a stranger's bytes before a learner is built, with atheris (libFuzzer).

    pip install atheris
    python tests/hostile/fuzz_atheris.py -max_total_time=600 [any option of libFuzzer] [folders with inputs]

The first byte of an input selects the reader of the rest: of blocks, of the summary, of a description, of a configuration, or of
a folder's stream. It also selects whether checksums are corrected first. Every exception except a refusal is a finding, and so is
a disagreement between readers. Findings are written to the working directory. Without folders the fuzzer starts from seeds.py.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from prequential.errors import ConfigError, CorruptArchiveError, OutputError, UnsupportedVersionError

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed here (it has wheels for Linux and some versions of Python): pip install atheris")

with atheris.instrument_imports(include=["prequential_codecs", "prequential_corpora", "prequential.model.config"]):
    from prequential_codecs.archive import ArchiveReader
    from prequential_codecs.archive_header import Header, pack_header, read_header
    from prequential_codecs.archive_summary import summarise, survey
    from prequential_codecs.byte_source import ByteSource
    from prequential_corpora.sources import open_corpus
    from prequential_corpora.tree_restore import restore_tree

    from prequential.model.config import Config

from forge import Draft, repaired  # imports codecs, which must be instrumented before

BOX_VARIABLE = "PREQUENTIAL_FUZZ_BOX"  # set in the process that fuzzes; libFuzzer ends it without cleaning up
BOX = Path(os.environ.get(BOX_VARIABLE, os.devnull))


def read_archive(data: bytes) -> None:
    """Reader, summary and survey: the others describe what the reader accepts, and the header can be written again."""
    path = BOX / "a.pq"
    path.write_bytes(data)
    blocks, summary = None, None
    try:
        reader = ArchiveReader(io.BytesIO(data))
        again = ArchiveReader(io.BytesIO(pack_header(reader.header))).header
        assert again == reader.header
        blocks = list(reader.blocks())
    except (CorruptArchiveError, UnsupportedVersionError):
        pass
    try:
        summary = summarise(path)
    except (CorruptArchiveError, UnsupportedVersionError):
        assert blocks is None, "the reader accepts what the summary refuses"
    try:
        found = survey(path)
        assert (found.fault is None) == (blocks is not None)
        assert found.n_bytes_held <= found.header.n_bytes
    except (CorruptArchiveError, UnsupportedVersionError):
        assert blocks is None
    if blocks is not None and summary is not None:
        assert [block.head for block in blocks] == list(summary.blocks)
        assert sum(block.n_bytes for block in blocks) == summary.header.n_bytes
        assert summary.archive_bytes == len(data)


def read_description(data: bytes) -> None:
    """The description of a header, as JSON and as deflated bytes, and the configuration in it."""
    for draft in (Draft(0, bytes(32), data), Draft(0, bytes(32), b"", packed=data)):
        try:
            header = read_header(ByteSource(io.BytesIO(draft.header())))
        except CorruptArchiveError:
            continue
        assert read_header(ByteSource(io.BytesIO(pack_header(header)))) == header
        read_config(header)


def read_config(header: Header) -> None:
    """An accepted configuration is the same after it is written and read again."""
    try:
        config = Config.from_dict(header.config)
    except ConfigError as error:
        assert str(error).isprintable(), "control characters in a message"
        return
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def read_configuration(data: bytes) -> None:
    """A configuration without a header."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return
    read_config(Header(n_bytes=0, blake2b=bytes(32), config=values))


def read_tree(data: bytes) -> None:
    """A folder's stream: a restored folder gives the same stream, and no other file is written."""
    stream, target = BOX / "inside" / "stream", BOX / "inside" / "out"
    shutil.rmtree(BOX / "inside", ignore_errors=True)
    stream.parent.mkdir()
    stream.write_bytes(data)
    try:
        restore_tree(stream, target)
    except (CorruptArchiveError, OutputError):
        assert not target.exists()
    else:
        with open_corpus(target, spool_dir=BOX) as corpus:
            assert corpus.bytes().tobytes() == data
        shutil.rmtree(target)
    assert [path.name for path in (BOX / "inside").iterdir()] == ["stream"]
    assert sorted(path.name for path in BOX.iterdir()) in (["inside"], ["a.pq", "inside"])


READERS = (read_archive, read_archive, read_description, read_configuration, read_tree)


def test_one_input(data: bytes) -> None:
    """The function that libFuzzer calls."""
    if not data:
        return
    choice, data = data[0], data[1:]
    if choice & 0x80:
        data = repaired(data, index=bool(choice & 0x40))
    READERS[(choice & 0x3F) % len(READERS)](data)


def starting_inputs(folder: Path) -> None:
    """Writes the seeds as inputs for each reader."""
    from seeds import seeds

    for name, seed in seeds().items():
        draft = Draft.of(seed.archive)
        inputs = {0: seed.archive, 0x80: seed.archive, 0xC0: seed.archive, 2: draft.text}
        inputs[3] = json.dumps(draft.description["config"]).encode()
        if seed.is_tree:
            inputs[4] = seed.original
        for choice, data in inputs.items():
            (folder / f"{name}-{choice}").write_bytes(bytes([choice]) + data)


def main() -> int:
    if BOX_VARIABLE in os.environ:
        atheris.Setup(sys.argv, test_one_input)
        atheris.Fuzz()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        box, start = Path(folder, "box"), Path(folder, "seeds")
        box.mkdir()
        start.mkdir()
        starting_inputs(start)
        options = ["-max_len=4096", "-timeout=20", "-rss_limit_mb=1024", *sys.argv[1:], str(start)]
        environment = {**os.environ, BOX_VARIABLE: str(box)}
        return subprocess.run([sys.executable, __file__, *options], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
