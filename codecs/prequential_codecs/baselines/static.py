"""Baselines that only count bytes, by name: with fixed counts (two-part) or with growing counts (adaptive), and a range coder."""

from functools import partial

from prequential_codecs.baselines import adaptive, order0, order2, two_part
from prequential_codecs.baselines.compressor import Compressor

TWO_PART_ORDERS = {"order1-static": 1, "order2-static": 2, "order3-static": 3}

STATIC: dict[str, Compressor] = {
    "order0": Compressor(label="order 0, two-part", compress=order0.compress, decompress=order0.decompress),
    **{
        name: Compressor(
            label=f"order {order}, two-part",
            compress=partial(two_part.compress, order=order),
            decompress=partial(two_part.decompress, order=order),
        )
        for name, order in TWO_PART_ORDERS.items()
    },
    "kt0": Compressor(
        label="order 0, adaptive (Krichevsky-Trofimov)", compress=adaptive.compress, decompress=adaptive.decompress
    ),
    "order2": Compressor(
        label="order 2, adaptive (Witten-Bell)", compress=order2.compress, decompress=order2.decompress
    ),
}
