"""The baselines' sizes are those that anyone gets from the programs themselves, at the settings that the labels name.

bzip2, xz and brotli give equal sizes to the byte; zstd where program and library are of one version. gzip does not: the
baseline is zlib's deflate, and GNU gzip has one of its own; pigz, which uses zlib's, agrees to the byte.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from prequential.codecs.baselines.registry import BASELINES
from prequential.corpora.bundled import sample_path

SAMPLE = sample_path("christmas_carol")
GZIP_TOLERANCE = 0.002  # of the size; measured: 0.0002 on the sample, 0.0012 on enwik6, 0.0007 on book1
ZSTD_TOLERANCE = 0.002  # measured, 1.5.4 against 1.5.7: 0 on the sample, 0.0001 on enwik6, 0.0015 on book1


def program_size(*command: str, path: Path = SAMPLE) -> int:
    """Bytes that a program writes to standard output for the file; skips where there is no such program."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return len(subprocess.run([*command, str(path)], stdout=subprocess.PIPE, check=True).stdout)


def baseline_size(name: str, path: Path = SAMPLE) -> int:
    if not BASELINES[name].installed:
        pytest.skip(f"{BASELINES[name].requires} is not installed")
    return len(BASELINES[name].compress(path.read_bytes()))


def test_bzip2_is_as_long_as_the_programs() -> None:
    assert baseline_size("bzip2") == program_size("bzip2", "-9", "-c")


def test_xz_is_as_long_as_the_programs_where_the_dictionary_of_preset_9_holds_all() -> None:
    assert SAMPLE.stat().st_size < 64 << 20  # beyond that, the baseline's dictionary grows and the program's does not
    assert baseline_size("xz") == program_size("xz", "-9e", "-T1", "-c")


def test_zstd_is_as_long_as_the_programs_without_its_checksum() -> None:
    size = program_size("zstd", "-22", "--ultra", "--long=27", "--no-check", "-q", "-c")
    assert size == pytest.approx(baseline_size("zstd"), rel=0 if same_zstd() else ZSTD_TOLERANCE)


def test_a_checksum_of_four_bytes_is_all_that_zstds_program_adds() -> None:
    options = ("-22", "--ultra", "--long=27", "-q", "-c")
    assert program_size("zstd", *options) == program_size("zstd", *options, "--no-check") + 4


def same_zstd() -> bool:
    """Whether program and library are of one version: the search for matches differs between versions."""
    import zstandard

    version = subprocess.run(["zstd", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return f"v{'.'.join(map(str, zstandard.ZSTD_VERSION))}," in version


def test_brotli_is_as_long_as_the_programs() -> None:
    assert baseline_size("brotli") == program_size("brotli", "-q", "11", "-c")


def test_gzip_is_as_long_as_that_of_a_program_that_uses_zlib() -> None:
    one_block = "4096"  # KiB: pigz compresses blocks apart, which costs bytes
    assert baseline_size("gzip") == program_size("pigz", "-9", "-n", "-b", one_block, "-c")


def test_gzip_is_within_a_fifth_of_a_percent_of_gnu_gzip() -> None:
    assert baseline_size("gzip") == pytest.approx(program_size("gzip", "-9n", "-c"), rel=GZIP_TOLERANCE)
