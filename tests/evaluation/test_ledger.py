"""The ledger, and the source of the decoder: its list has what decoding imports and nothing else, and the zip alone decodes."""

import io
import math
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from small import BOTH as GPT_AND_MIXER

import prequential
from prequential.evaluation.ledger import (
    Ledger,
    bits_per_byte,
    code_of,
    decoder_modules,
    decoder_zip,
)

MAX_ZIP_BYTES = 138_500
TEXT = b"It was the best of times, it was the worst of times. " * 6
DECODE_THEN_IMPORT_THE_LIST = """
import sys
folder, archive, output, kernels, *names = sys.argv[1:]
sys.path.insert(0, folder)
sys.path_importer_cache.clear()
import prequential, importlib
prequential.decompress(archive, output, runtime=prequential.Runtime(threads=2, kernels=kernels))
loaded = lambda: {name for name in sys.modules if name.startswith("prequential")}
assert loaded() <= {*names}, loaded() - {*names}
for name in names: importlib.import_module(name)
assert loaded() == {*names}, loaded() - {*names}
print(prequential.__file__)
"""


@pytest.mark.parametrize("zipped", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["here", "zip alone"])
def test_decoding_needs_the_modules_of_the_list_and_no_others(zipped: bool, tmp_path: Path) -> None:
    """The zip is unpacked into an empty folder and interpreted, which compiles nothing."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "text").write_bytes(TEXT)
    archive, output, decoder = tmp_path / "a.pq", tmp_path / "output", tmp_path / "decoder"
    prequential.compress(tmp_path / "source", archive, config=GPT_AND_MIXER, runtime=prequential.Runtime(threads=1))
    zipfile.ZipFile(io.BytesIO(decoder_zip())).extractall(decoder)
    place, kernels = (decoder, "plain") if zipped else (Path(prequential.__file__).parents[1], "fused")
    command = [sys.executable, "-c", DECODE_THEN_IMPORT_THE_LIST, place, archive, output, kernels, *decoder_modules()]
    env = os.environ | {"NUMBA_DISABLE_JIT": str(int(zipped))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert (output / "text").read_bytes() == TEXT
    assert Path(done.stdout.strip()) == place / "prequential" / "__init__.py"


def test_the_zip_is_small_the_same_each_time_and_has_no_comments() -> None:
    assert decoder_zip() == decoder_zip() and len(decoder_zip()) == len(decoder_zip()) < MAX_ZIP_BYTES
    with zipfile.ZipFile(io.BytesIO(decoder_zip())) as file:
        assert not [name for name in file.namelist() if code_of(text := file.read(name).decode()) != text]


LEDGER = Ledger(n_bytes=1000, archive_bytes=300, header_bytes=60, payload_bytes=200, code_bits=1590.0)


def test_the_parts_of_an_archive_add_up_and_their_units_are_right() -> None:
    assert LEDGER.header_bytes + LEDGER.payload_bytes + LEDGER.container_bytes == LEDGER.archive_bytes
    assert (LEDGER.archive_bits, LEDGER.bits_per_byte) == (2400, 2.4)
    assert bits_per_byte(60, 0) == math.inf
    assert replace(LEDGER, code_bits=1000.0).code_nats_per_byte == pytest.approx(math.log(2))  # one bit a byte
