"""Static models by name, beside the classical compressors: what counting reaches with the learner's own range coder."""

from prequential.codecs import order0, order2
from prequential.codecs.compressor import Compressor

STATIC: dict[str, Compressor] = {
    "order0": Compressor(label="order 0, two-part", compress=order0.compress, decompress=order0.decompress),
    "order2": Compressor(
        label="order 2, adaptive (Witten-Bell)", compress=order2.compress, decompress=order2.decompress
    ),
}
