"""The baselines have the sizes of the command-line programs at the settings of their labels.

bzip2, xz and brotli agree to the byte, and zstd if program and library have the same version. gzip differs: the baseline uses
the deflate of zlib, and GNU gzip has its own. pigz, which uses zlib, agrees to the byte.
"""

import shutil
import subprocess

import pytest
from prequential_codecs.baselines.registry import BASELINES
from prequential_corpora.bundled import sample_path

SAMPLE = sample_path("christmas_carol")
# For files above 64 MiB, the dictionary of the baseline xz grows and that of the program does not. pigz compresses blocks of so
# many KiB separately, which costs bytes. The tolerances are of the size. Measured: gzip 0.0002 on the sample, 0.0012 on enwik6,
# 0.0007 on book1; zstd 1.5.4 against 1.5.7 0 on the sample, 0.0001 on enwik6, 0.0015 on book1.
PROGRAMS = [
    ("bzip2", "bzip2 -9 -c", 0.0),
    ("xz", "xz -9e -T1 -c", 0.0),
    ("zstd", "zstd -22 --ultra --long=27 --no-check -q -c", 0.002),
    ("brotli", "brotli -q 11 -c", 0.0),
    ("gzip", "pigz -9 -n -b 4096 -c", 0.0),
    ("gzip", "gzip -9n -c", 0.002),
]


def program_size(command: str) -> int:
    """The number of bytes that a program writes to standard output for the sample. Skips the test if it is not installed."""
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return len(subprocess.run([*words, str(SAMPLE)], stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize(("name", "command", "tolerance"), PROGRAMS)
def test_a_baseline_has_the_size_of_the_program(name: str, command: str, tolerance: float) -> None:
    if not BASELINES[name].installed:
        pytest.skip(f"{BASELINES[name].requires} is not installed")
    assert program_size(command) == pytest.approx(len(BASELINES[name].compress(SAMPLE.read_bytes())), rel=tolerance)


def test_the_zstd_program_adds_only_a_checksum_of_four_bytes() -> None:
    options = "zstd -22 --ultra --long=27 -q -c"
    assert program_size(options) == program_size(f"{options} --no-check") + 4
