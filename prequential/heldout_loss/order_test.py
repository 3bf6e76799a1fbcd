"""Whether a static model knows the order of documents: an exact permutation test for contamination (Oren et al. 2024).

A model that read a data set in training has read it in the order of its file. Then this order costs it less than drawn orders of
the same documents. If it has not read the file, and the order has no meaning of its own, all orders are alike to it: then p is at
most a with a probability of at most a, whatever the model. Source: Y. Oren et al. (2024), "Proving test set contamination in
black-box language models", ICLR.
"""

from collections.abc import Callable, Mapping
from typing import Any

from prequential.heldout_loss.documents import HeldoutCorpus
from prequential.online.source import drawn_order
from prequential.records import OrderTest

MIN_ORDERS = 19  # with fewer, p cannot be 0.05
SMALL_P = 0.05


def order_test(own_bits: float, cost: Callable[[HeldoutCorpus], float], documents: HeldoutCorpus, n: int) -> OrderTest:
    """The cost of the documents in the order of their file and in each of n drawn orders, in bits. p: the share of orders,
    with the file's own, that cost no more than it.
    """
    shuffled = [cost(documents.only(drawn_order(len(documents.documents), seed))) for seed in range(n)]
    n_cheaper = sum(bits <= own_bits for bits in shuffled)
    return OrderTest(canonical_bits=own_bits, shuffled_bits=shuffled, p_value=(1 + n_cheaper) / (1 + n))


def order_sentence(test: Mapping[str, Any], name: str) -> str:
    """Whether the model's score on these documents can be used. test: an OrderTest of a record."""
    of = f"p = {test['p_value']:.3g}, {len(test['shuffled_bits'])} drawn orders"
    if test["p_value"] <= SMALL_P:
        what = "if the order means nothing, it has read the file, so do not judge it by these documents"
        return f"{name} needs fewer bits in the order of this file than in drawn orders ({of}): {what}"
    unknown = "its score may be used, but a copy in another order would not show"
    return f"{name} shows no sign of having read this file ({of}): {unknown}"
