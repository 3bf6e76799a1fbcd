"""All baselines by name, at their strongest usual settings: windows and dictionaries cover the complete corpus where possible.

Each output is decoded again before its size is reported. Optional libraries are imported when they are used.
"""

import bz2
import gzip
import importlib.util
import io
import lzma
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.errors import ConfigError, MissingDependencyError, PrequentialError
from prequential_codecs.byte_source import ByteSource, varint

TOTAL_BITS = 24
TOTAL = 1 << TOTAL_BITS
_BYTE_VALUES = 256
_MANTISSA_BITS = 3
_MANTISSA_ONE = 1 << _MANTISSA_BITS  # the leading one that a minifloat does not store
_MAX_EXPONENT = 31

Ints = NDArray[np.int64]


def compress_order0(data: bytes) -> bytes:
    """Length, 32-byte map of the bytes that occur, one byte of frequency for each; then the range coder's payload."""
    symbols = np.frombuffer(data, dtype=np.uint8)
    counts = np.bincount(symbols, minlength=_BYTE_VALUES)
    present = counts > 0
    parameters = bytes(_to_minifloat(int(count)) for count in counts[present])
    head = varint(len(data)) + np.packbits(present).tobytes() + parameters
    if len(parameters) < 2:  # the data follow from the length; a coder needs two symbols
        return head
    ranks = (np.cumsum(present) - 1)[symbols]
    return head + encode(ranks, _frequencies_of(parameters))


def decompress_order0(compressed: bytes) -> bytes:
    """The inverse of `compress_order0`."""
    source = ByteSource(io.BytesIO(compressed))
    n_bytes = source.take_varint()
    present = np.unpackbits(np.frombuffer(source.take(_BYTE_VALUES // 8), dtype=np.uint8))
    values = np.nonzero(present)[0].astype(np.uint8)
    parameters = source.take(len(values))
    if len(values) < 2:
        return values.tobytes() * n_bytes
    return values[decode(compressed[source.n_bytes_taken :], n_bytes, _frequencies_of(parameters))].tobytes()


def _to_minifloat(count: int) -> int:
    """`count` >= 1 as one byte, rounded down: 5 bits of exponent, 3 bits of mantissa. This costs about 0.001 bits per symbol."""
    exponent = min(count.bit_length() - 1, _MAX_EXPONENT)
    significand = min(count * _MANTISSA_ONE >> exponent, 2 * _MANTISSA_ONE - 1)
    return exponent << _MANTISSA_BITS | significand - _MANTISSA_ONE


def _frequencies_of(parameters: bytes) -> Ints:
    """(V,) frequencies in proportion to V minifloats. What is missing to the total goes to the most frequent symbol."""
    codes = np.frombuffer(parameters, dtype=np.uint8).astype(np.int64)
    weights = (_MANTISSA_ONE + codes % _MANTISSA_ONE) << (codes >> _MANTISSA_BITS)
    frequencies = (weights * TOTAL // weights.sum() * (TOTAL - len(codes)) >> TOTAL_BITS) + 1
    frequencies[frequencies.argmax()] += TOTAL - frequencies.sum()
    return frequencies


# ---- the range coder


def encode(symbols: Ints, frequencies: Ints) -> bytes:
    """Little-endian 32-bit words, about 16 bits more than the ideal code length of symbols (n,) in 0..V-1; empty without any."""
    import constriction

    coder = constriction.stream.queue.RangeEncoder()
    coder.encode(symbols.astype(np.int32), _model(constriction, frequencies))
    return bytes(coder.get_compressed().astype("<u4").tobytes())


def decode(payload: bytes, n: int, frequencies: Ints) -> Ints:
    """The n symbols of a payload of `encode`."""
    import constriction

    coder = constriction.stream.queue.RangeDecoder(np.frombuffer(payload, "<u4").astype(np.uint32))
    return np.asarray(coder.decode(_model(constriction, frequencies), n), np.int64)


def _model(constriction: Any, frequencies: Ints) -> Any:
    return constriction.stream.model.Categorical(np.subtract(frequencies, 1, dtype=np.float64), perfect=False)


_XZ_PRESET = 9 | lzma.PRESET_EXTREME
_XZ_MIN_DICTIONARY_BYTES = 1 << 26  # as in preset 9
_XZ_MAX_DICTIONARY_BYTES = 3 << 29  # 1.5 GiB, the maximum of liblzma's encoder
_ZSTD_WINDOW_LOG = 27  # 128 MiB: decoders accept it without the option --long
_PPMD_ORDER = 16
_PPMD_MEMORY_BYTES = 256 << 20  # model memory, in the compressor and in the decompressor


@dataclass(frozen=True, kw_only=True)
class Compressor:
    """A compressor of complete files with fixed settings. `decompress` may raise any exception for bytes that are not its own.

    label: its name and settings for tables. requires: the module that must be installed, or None.
    """

    label: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]
    requires: str | None = None

    @property
    def installed(self) -> bool:
        """Whether `requires` is installed. Imports nothing."""
        return self.requires is None or importlib.util.find_spec(self.requires) is not None


def _compress_xz(data: bytes) -> bytes:
    dictionary_bytes = min(max(len(data), _XZ_MIN_DICTIONARY_BYTES), _XZ_MAX_DICTIONARY_BYTES)
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": _XZ_PRESET, "dict_size": dictionary_bytes}])


def _compress_zstd(data: bytes) -> bytes:
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        22, source_size=len(data), window_log=_ZSTD_WINDOW_LOG, enable_ldm=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def _decompress_zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG).decompress(data)


def _compress_ppmd(data: bytes) -> bytes:
    import pyppmd

    # The stream has no end mark, and the decoder drops a final NUL if it does not know the length. So the length is stored.
    coder = pyppmd.Ppmd8Encoder(_PPMD_ORDER, _PPMD_MEMORY_BYTES)
    return varint(len(data)) + coder.encode(data) + coder.flush()


def _decompress_ppmd(data: bytes) -> bytes:
    import pyppmd

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
    "zstd": Compressor(
        label="zstd -22 --ultra --long=27", compress=_compress_zstd, decompress=_decompress_zstd, requires="zstandard"
    ),
    "brotli": Compressor(
        label="brotli -q 11",
        compress=lambda data: import_module("brotli").compress(data, quality=11, lgwin=24),
        decompress=lambda data: import_module("brotli").decompress(data),
        requires="brotli",
    ),
    "ppmd": Compressor(
        label="ppmd var I, order 16", compress=_compress_ppmd, decompress=_decompress_ppmd, requires="pyppmd"
    ),
    "order0": Compressor(
        label="order 0, two-part", compress=compress_order0, decompress=decompress_order0, requires="constriction"
    ),
}


@dataclass(frozen=True, kw_only=True)
class BaselineResult:
    """The size of n_bytes of data. wall_s: of the compression alone."""

    name: str
    n_bytes: int
    compressed_bytes: int
    wall_s: float


def measure(name: str, data: bytes) -> BaselineResult:
    """Compresses `data` with baseline `name`, decompresses it again, and returns the size.

    Raises ConfigError for an unknown name, MissingDependencyError without its library, PrequentialError if the data differ.
    """
    if name not in BASELINES:
        raise ConfigError(f"baseline {name!r} is unknown; choose from {', '.join(BASELINES)}")
    compressor = BASELINES[name]
    if not compressor.installed:
        package = compressor.requires
        raise MissingDependencyError(f"baseline {name} needs the package {package}: pip install {package}")
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


def measure_installed(data: bytes, names: Iterable[str] = tuple(BASELINES)) -> tuple[list[BaselineResult], list[str]]:
    """The results of all `names` that are installed and decode correctly, and one note for each other. Raises ConfigError."""
    results, notes = [], []
    for name in names:
        try:
            results.append(measure(name, data))
        except ConfigError:
            raise
        except PrequentialError as error:
            notes.append(f"skipped: {error}")
    return results, notes
