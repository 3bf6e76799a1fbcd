"""All baselines by name, at their strongest usual settings: windows and dictionaries cover the complete corpus where possible.

Each output is decoded again before its size is reported.
"""

import bz2
import gzip
import io
import lzma
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import brotli
import pyppmd
import zstandard

from prequential.errors import PrequentialError
from prequential_codecs.byte_source import ByteSource, varint

_XZ_PRESET = 9 | lzma.PRESET_EXTREME
_XZ_MIN_DICTIONARY_BYTES = 1 << 26  # as in preset 9
_XZ_MAX_DICTIONARY_BYTES = 3 << 29  # 1.5 GiB, the maximum of liblzma's encoder
_ZSTD_WINDOW_LOG = 27  # 128 MiB: decoders accept it without the option --long
_PPMD_ORDER = 16
_PPMD_MEMORY_BYTES = 256 << 20  # model memory, in the compressor and in the decompressor


@dataclass(frozen=True, kw_only=True)
class Compressor:
    """A compressor of complete files. label: name and settings for tables. `decompress` may raise anything for other bytes."""

    label: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


def _compress_xz(data: bytes) -> bytes:
    dictionary_bytes = min(max(len(data), _XZ_MIN_DICTIONARY_BYTES), _XZ_MAX_DICTIONARY_BYTES)
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": _XZ_PRESET, "dict_size": dictionary_bytes}])


def _compress_zstd(data: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(
        22, source_size=len(data), window_log=_ZSTD_WINDOW_LOG, enable_ldm=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def _decompress_zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG).decompress(data)


def _compress_ppmd(data: bytes) -> bytes:
    # The stream has no end mark, and the decoder drops a final NUL if it does not know the length. So the length is stored.
    coder = pyppmd.Ppmd8Encoder(_PPMD_ORDER, _PPMD_MEMORY_BYTES)
    return varint(len(data)) + coder.encode(data) + coder.flush()


def _decompress_ppmd(data: bytes) -> bytes:
    source = ByteSource(io.BytesIO(data))
    n_bytes = source.take_varint()
    decoder = pyppmd.Ppmd8Decoder(_PPMD_ORDER, _PPMD_MEMORY_BYTES)
    original: bytes = decoder.decode(data[source.n_bytes_taken :], n_bytes)
    return original


BASELINES: dict[str, Compressor] = {
    "gzip": Compressor(
        label="gzip -9 (zlib)", compress=lambda data: gzip.compress(data, 9, mtime=0), decompress=gzip.decompress
    ),
    "bzip2": Compressor(label="bzip2 -9", compress=bz2.compress, decompress=bz2.decompress),
    "xz": Compressor(label="xz -9e", compress=_compress_xz, decompress=lzma.decompress),
    "zstd": Compressor(label="zstd -22 --ultra --long=27", compress=_compress_zstd, decompress=_decompress_zstd),
    "brotli": Compressor(
        label="brotli -q 11",
        compress=lambda data: brotli.compress(data, quality=11, lgwin=24),
        decompress=brotli.decompress,
    ),
    "ppmd": Compressor(label="ppmd var I, order 16", compress=_compress_ppmd, decompress=_decompress_ppmd),
}


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """The size of n_bytes of data. wall_s: of the compression alone."""

    name: str
    n_bytes: int
    compressed_bytes: int
    wall_s: float


def measure(name: str, data: bytes) -> BaselineResult:
    """Compresses `data`, decompresses it again, and returns the size. Raises PrequentialError if the data differ."""
    compressor = BASELINES[name]
    start_s = time.perf_counter()
    compressed = compressor.compress(data)
    wall_s = time.perf_counter() - start_s
    try:
        restored = compressor.decompress(compressed)
    except Exception as error:  # from a library: pyppmd 1.3.1 at order 16 refuses some of its own output
        raise PrequentialError(f"baseline {name} does not decode its {len(data)} bytes of input: {error}") from error
    if restored != data:
        raise PrequentialError(f"baseline {name} decompresses its {len(data)} bytes of input to other bytes")
    return BaselineResult(name=name, n_bytes=len(data), compressed_bytes=len(compressed), wall_s=wall_s)


def measure_each(data: bytes, names: Iterable[str]) -> tuple[list[BaselineResult], list[str]]:
    """The results of all `names` that decode correctly, and one note for each other."""
    results, notes = [], []
    for name in names:
        try:
            results.append(measure(name, data))
        except PrequentialError as error:
            notes.append(f"skipped: {error}")
    return results, notes
