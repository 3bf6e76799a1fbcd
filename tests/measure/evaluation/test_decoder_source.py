"""The decoder's source: all that decoding imports is in the zip, and nothing of what measures."""

import io
import subprocess
import sys
import zipfile

import prequential
from prequential.measure.evaluation.decoder_source import decoder_modules, decoder_zip, decoder_zip_bytes


def test_every_module_that_decoding_loads_is_in_the_zip(tmp_path):
    archive = prequential.compress(
        b"some text " * 20, config=prequential.Config(gpt=None), runtime=prequential.Runtime()
    )
    (tmp_path / "a.pq").write_bytes(archive)
    program = """
import io, sys
from prequential.codecs.archive import ArchiveReader
from prequential.online import coding
from prequential.online.runtime import Runtime
sink = io.BytesIO()
for _ in coding.decompress(ArchiveReader(open(sys.argv[1], "rb")), sink, Runtime()): pass
assert sink.getvalue() == b"some text " * 20
print(*(name for name in sys.modules if name.partition(".")[0] == "prequential"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.pq")], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) <= decoder_modules().keys()


def test_the_zip_holds_the_files_as_they_are_and_is_the_same_each_time():
    with zipfile.ZipFile(io.BytesIO(decoder_zip())) as file:
        for name, path in decoder_modules().items():
            suffix = "/__init__.py" if path.name == "__init__.py" else ".py"
            assert file.read(name.replace(".", "/") + suffix) == path.read_bytes()
    assert decoder_zip() == decoder_zip() and decoder_zip_bytes() == len(decoder_zip())


def test_what_only_measures_is_not_in_it():
    assert not any(name.startswith(("prequential.measure", "prequential.cli")) for name in decoder_modules())
