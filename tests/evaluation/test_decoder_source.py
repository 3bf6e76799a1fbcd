"""The source of the decoder: the zip holds every module that decoding loads, and none that measures."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from small import BOTH as GPT_AND_MIXER

import prequential
from prequential.evaluation.ledger import decoder_modules, decoder_zip, decoder_zip_bytes

INTERPRETED = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
MAX_ZIP_BYTES = 133_000
# They refuse arguments and long or large work, or keep compiled kernels; the zip decodes without them, as a test shows.
LEFT_OUT = {f"prequential.{name}" for name in ("arguments", "machine.kernel_cache", "machine.usable_memory")}
TEXT = b"It was the best of times, it was the worst of times. " * 8
DECOMPRESS = """
import sys
import prequential
prequential.decompress(sys.argv[1], sys.argv[2], runtime=prequential.Runtime(threads=1, kernels=sys.argv[3]))
print(*(name for name in sys.modules if name.startswith("prequential")))
"""
LEARN = """
gpt, mixer = prequential.GPTConfig(n_layers=1, width=32, n_heads=1), prequential.MixerConfig(table_bits=8)
learner = prequential.Runtime(threads=2, kernels="fused").learner(prequential.Config(gpt=gpt, mixer=mixer))
print(learner.n_symbols, prequential.__file__)
"""


def modules_loaded_by_decompression(archive: Path, output: Path, kernels: str) -> set[str]:
    """The modules of this program that a fresh process has imported after decompressing `archive` to `output`."""
    done = subprocess.run(
        [sys.executable, "-c", DECOMPRESS, archive, output, kernels], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("config", "kernels", "is_folder"),
    [(GPT_AND_MIXER, "fused", True), (GPT_AND_MIXER, "plain", False)],
    ids=["folder", "plain"],
)
@pytest.mark.first_quick
def test_every_module_that_decoding_loads_is_in_the_zip(
    config: prequential.Config, kernels: str, is_folder: bool, tmp_path: Path
) -> None:
    source, output = tmp_path / "source", tmp_path / "decoded"
    if is_folder:
        source.mkdir()
    (source / "text" if is_folder else source).write_bytes(TEXT)
    prequential.compress(source, tmp_path / "a.pq", config=config, runtime=prequential.Runtime(threads=1))
    loaded = modules_loaded_by_decompression(tmp_path / "a.pq", output, kernels)
    assert (output / "text" if is_folder else output).read_bytes() == TEXT
    assert loaded - decoder_modules().keys() - LEFT_OUT == set()


@pytest.mark.thorough
def test_the_zip_alone_is_a_decoder_with_all_kernels_and_threads(tmp_path: Path) -> None:
    """Unpacked into an empty folder, without any other file of this program; interpreted, which is slow but compiles nothing."""
    source, archive, output = tmp_path / "folder", tmp_path / "folder.pq", tmp_path / "decoded"
    source.mkdir()
    (source / "text").write_bytes(TEXT[:300])
    prequential.compress(source, archive, config=GPT_AND_MIXER, runtime=prequential.Runtime(threads=1))
    zipfile.ZipFile(io.BytesIO(decoder_zip())).extractall(tmp_path / "decoder")
    begin = "import sys; sys.path.insert(0, sys.argv.pop()); sys.path_importer_cache.clear()"
    command = [sys.executable, "-c", f"{begin}{DECOMPRESS}{LEARN}", archive, output, "plain", tmp_path / "decoder"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=INTERPRETED)
    assert (output / "text").read_bytes() == TEXT[:300]
    assert done.stdout.splitlines()[-1] == f"0 {tmp_path / 'decoder' / 'prequential' / '__init__.py'}"


def test_the_zip_is_the_same_each_time_and_has_no_comments() -> None:
    assert decoder_zip() == decoder_zip()
    assert decoder_zip_bytes() == len(decoder_zip())
    with zipfile.ZipFile(io.BytesIO(decoder_zip())) as file:
        assert not [name for name in file.namelist() if "# " in file.read(name).decode()]


def test_the_zip_stays_small_and_has_no_modules_that_only_measure() -> None:
    with zipfile.ZipFile(io.BytesIO(decoder_zip())) as file:
        sizes = sorted(((member.compress_size, member.filename) for member in file.infolist()), reverse=True)
    lines = [f"{size:>6,} {name}" for size, name in sizes]
    assert decoder_zip_bytes() < MAX_ZIP_BYTES, "\n".join([f"{decoder_zip_bytes():,} bytes:", *lines])
    assert not any(name.startswith(("prequential.evaluation", "prequential.cli")) for name in decoder_modules())
