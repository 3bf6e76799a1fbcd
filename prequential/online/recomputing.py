"""One computation of the GPT repeated on other backends, and what their agreement says about the cause of a fault.

Every exact matmul backend and both kinds of primitives give the same bits (docs/EXACT.md). Where a result deviates, the backends
that share the deviation identify its cause.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from prequential.errors import InexactMachineError
from prequential.exact import fused, matmul, plain
from prequential.exact.backend import Backend, Primitives
from prequential.exact.matmul import Matmul, Tensor

MEMORY = "memory"
TRANSIENT = "memory or processor"


@dataclass(frozen=True)
class Crossed(Matmul):
    """Products of single matrices by one method and of batches by another; int8 and float32 share their batched method."""

    batches: str

    def batched(self, a: Tensor, b: Tensor) -> Tensor:
        return Matmul(self.batches).batched(a, b)


def other_primitives(backend: Backend) -> Primitives:
    """The primitives that this backend does not use."""
    return plain if backend.primitives.COMPILED else fused


def opposite(backend: Backend) -> Backend:
    """The backend that shares as little code as possible: the other primitives, and products by other library routines.

    Where one matmul method alone is exact, only the primitives differ.
    """
    own = backend.matmul.name
    names = [matmul.name for matmul in exact_matmuls()]
    products = next((name for name in names if name != own), own)
    batches = "float32" if own == "float64" else "float64"
    crossed = Crossed(products, batches if batches in names else own)
    return replace(backend, primitives=other_primitives(backend), matmul=crossed)


def exact_matmuls() -> list[Matmul]:
    """Every matmul method that passes its self-test on this machine, in the order of their usual speed."""
    passed = []
    for name in matmul.BACKEND_NAMES:
        try:
            passed.append(matmul.choose("cpu", name))
        except InexactMachineError:
            continue
    return passed


def likely_cause(compute: Callable[[Backend], bytes], own: Backend, observed: bytes | None = None) -> str:
    """The likely cause of a deviation, in words.

    compute: the digest of the result on a backend, always from the same operands. own: the backend of the run. observed: what
    the run computed, where that is known. If the deviation does not occur again, or all backends agree now, it was a transient
    fault of memory or processor. If only another matmul gives another result, it is the library; if only other primitives do,
    it is the program.
    """
    result = compute(own)
    if compute(own) != result or observed not in (None, result):
        return f"{TRANSIENT} (computed again, the result is different)"
    results = {own.matmul.name: result}
    results |= {m.name: compute(replace(own, matmul=m)) for m in exact_matmuls() if m != own.matmul}
    if len(set(results.values())) > 1:
        few = _minority(results, own.matmul.name)
        return f"library (products by {', '.join(few)} differ from those by {', '.join(results.keys() - set(few))})"
    if compute(replace(own, primitives=other_primitives(own))) != result:
        return "program (compiled and plain kernels differ)"
    return f"{TRANSIENT} (computed again on every backend, the result is right)"


def _minority(results: dict[str, bytes], own: str) -> list[str]:
    """Names of the results that differ from the most frequent one; of two that differ, `own`."""
    (common, count), *_ = Counter(results.values()).most_common()
    if count == 1 and len(results) > 1:
        return [own]
    return [name for name, result in results.items() if result != common]
