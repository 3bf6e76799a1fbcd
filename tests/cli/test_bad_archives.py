"""Bad archives: one line each, exit code 1, and no output that looks complete.

One command tests all of them and must continue after each failure. A good archive is the last one.
"""

import io
import json
import os

import pytest
from prequential_codecs.archive import ArchiveWriter
from prequential_codecs.archive_header import Header
from prequential_codecs.archive_summary import survey

from prequential.model.config import Config, GPTConfig


def headed(config: dict) -> bytes:
    """An archive whose header is well formed and declares `config`."""
    sink = io.BytesIO()
    ArchiveWriter(sink, Header(n_bytes=1 << 40, blake2b=bytes(32), config=config))
    return sink.getvalue()


def damaged(archive: bytes) -> dict[str, bytes]:
    from prequential_codecs.archive import ArchiveReader

    config = ArchiveReader(io.BytesIO(archive)).header.config
    middle = len(archive) // 2
    huge = Config(gpt=GPTConfig(n_layers=64, width=4096, n_heads=64)).to_dict()
    return {
        "empty": b"",
        "foreign": b"PK\3\4" + bytes(100),
        "other-version": archive[:8] + b"\x63\0" + archive[10:],
        "truncated": archive[:-20],
        "cut-in-header": archive[:30],
        "flipped": archive[:middle] + bytes([archive[middle] ^ 1]) + archive[middle + 1 :],
        "trailing": archive + b"\0",
        "out-of-range": headed({**config, "seed": -5}),
        "unknown-option": headed({**config, "surprise": 1}),
        "huge-model": headed(huge),
    }


REASONS = {
    "empty": "ends early",
    "foreign": "not a .pq archive",
    "other-version": "version 99",
    "truncated": "ends early",
    "cut-in-header": "ends early",
    "flipped": "checksum mismatch",
    "trailing": "bytes follow the end",
    "out-of-range": "seed = -5",
    "unknown-option": "surprise",
    "huge-model": "--max-memory",
    "missing": "No such file",
    "folder": "Is a directory",
}


@pytest.fixture(scope="module")
def tested(run, archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    for name, data in damaged(archive).items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    (folder / "good").write_bytes(archive)
    return run(folder, "test", *REASONS, "good")


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_one_line_that_names_the_archive(tested, name):
    named = f"prequential: {name}: ", f"prequential: cannot read {name!r}: "
    lines = [line for line in tested.stderr.decode().splitlines() if line.startswith(named)]
    assert len(lines) == 1
    assert REASONS[name] in lines[0]


def test_there_is_nothing_else_on_stderr_and_the_good_archive_passes(tested):
    assert len(tested.stderr.splitlines()) == len(REASONS)


def test_failures_give_exit_code_1(tested):
    assert (tested.returncode, tested.stdout) == (1, b"")


def test_the_good_beginning_of_a_damaged_archive_is_kept_under_another_name(run, archive, text, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "decompress", "a.pq")
    kept = (tmp_path / "a.from-0").read_bytes()
    assert 0 < len(kept) < len(text)
    assert text.startswith(kept)
    assert done.returncode == 1
    assert f"{len(kept)} bytes before it are good; they are in" in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.from-0", "a.pq"]


def test_an_archive_damaged_in_its_first_block_leaves_nothing(run, archive, tmp_path):
    (tmp_path / "a.pq").write_bytes(archive[: len(archive) // 4])
    done = run(tmp_path, "decompress", "a.pq")
    assert (done.returncode, [path.name for path in tmp_path.iterdir()]) == (1, ["a.pq"])


def test_an_incomplete_archive_is_listed_with_its_blocks(run, archive, text, tmp_path):
    (tmp_path / "a.pq.partial").write_bytes(archive[: len(archive) * 2 // 3])
    done = run(tmp_path, "list", "a.pq.partial")
    assert done.returncode == 0
    assert b"(incomplete: the first 1024 bytes)" in done.stdout
    entry = json.loads(run(tmp_path, "list", "--json", "a.pq.partial").stdout)
    assert (entry["n_bytes"], entry["n_bytes_held"], len(entry["blocks"])) == (len(text), 1024, 1)


def test_keep_going_lists_intact_blocks_after_the_damage_and_saves_raw_ones(run, tmp_path):
    text, noise = b"how doth the little crocodile " * 70, os.urandom(2048)
    (tmp_path / "a").write_bytes(text[:2048] + noise + text[:2048])
    assert run(tmp_path, "compress", "a").returncode == 0
    (tmp_path / "a").unlink()
    archive = bytearray((tmp_path / "a.pq").read_bytes())
    head = survey(tmp_path / "a.pq").blocks[1]
    archive[head.offset + 6] ^= 8
    (tmp_path / "a.pq").write_bytes(archive)
    done = run(tmp_path, "decompress", "--keep-going", "a.pq")
    message = done.stderr.decode()
    assert done.returncode == 1
    assert len(message.splitlines()) == 1
    assert "block 1 (original bytes 1024-2048) damaged" in message
    assert "blocks 2-3 (original bytes 2048-4096) stored raw and intact" in message
    assert "blocks 4-5 (original bytes 4096-6144) intact, but coded" in message
    assert (tmp_path / "a.from-2048").read_bytes() + (tmp_path / "a.from-3072").read_bytes() == noise
    assert (tmp_path / "a.from-0").read_bytes() == text[:1024]
    for name in ("a.from-0", "a.from-2048"):
        (tmp_path / name).write_bytes(b"precious")
    message = run(tmp_path, "decompress", "--keep-going", "a.pq").stderr.decode()
    assert (
        "block 2 (original bytes 2048-3072) stored raw and intact: not saved, because 'a.from-2048' exists" in message
    )
    assert (
        "block 3 (original bytes 3072-4096) stored raw and intact: not saved, because 'a.from-3072' exists" in message
    )
    assert "saved as" not in message
    assert (tmp_path / "a.from-0").read_bytes() == (tmp_path / "a.from-2048").read_bytes() == b"precious"
    message = run(tmp_path, "decompress", "--keep-going", "-f", "a.pq").stderr.decode()
    assert "blocks 2-3 (original bytes 2048-4096) stored raw and intact: saved as a.from-2048 to a.from-3072" in message
    assert (tmp_path / "a.from-0").read_bytes() == text[:1024]
    assert (tmp_path / "a.from-2048").read_bytes() == noise[:1024]


def test_standard_output_gets_the_verified_blocks_of_a_damaged_archive(run, archive, text, tmp_path):
    done = run(tmp_path, "decompress", stdin=archive[: len(archive) * 2 // 3])
    assert done.returncode == 1
    assert len(done.stdout) > 0
    assert text.startswith(done.stdout)
