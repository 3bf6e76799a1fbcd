"""Where the bits went: tables of costs by position, document, kind of byte, novelty, and how often a context was seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prequential.corpora.corpus import Document
from prequential.measure.trace import Trace

Table = list[dict[str, Any]]


def breakdown(source: NDArray[np.uint8], trace: Trace, documents: Sequence[Document]) -> dict[str, Any]:
    """All tables, as JSON values. source: (n,) uint8. documents: of a corpus of several; else none.

    In every table but that of documents the rows cover each byte once, so that their bits add up to the ledger's ideal bits.
    """
    return {}
