"""One computation of the GPT repeated on other backends, and what their agreement says about the cause of a fault.

Every exact matmul backend and both kinds of primitives give the same bits (docs/EXACT.md). Where a result deviates, the backends
that share the deviation identify its cause.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
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
    """The backend that shares as little code as possible: the other primitives and, if exact here, other library routines."""
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
        with suppress(InexactMachineError):
            passed.append(matmul.choose("cpu", name))
    return passed


def likely_cause(compute: Callable[[Backend], bytes], own: Backend, observed: bytes | None = None) -> str:
    """The likely cause of a deviation, in words: the library if another matmul gives another result, the program if other
    primitives do, else a transient fault.

    compute: the digest of the result on a backend, always from the same operands. own, observed: the run's backend and result.
    """
    result = compute(own)
    if compute(own) != result or observed not in (None, result):
        return f"{TRANSIENT} (computed again, the result is different)"
    results = {own.matmul.name: result}
    results |= {m.name: compute(replace(own, matmul=m)) for m in exact_matmuls() if m != own.matmul}
    if len(set(results.values())) > 1:
        common, count = Counter(results.values()).most_common(1)[0]  # of two that differ, the run's own is in question
        few = [name for name, found in results.items() if found != common] if count > 1 else [own.matmul.name]
        return f"library (products by {', '.join(few)} differ from those by {', '.join(results.keys() - set(few))})"
    if compute(replace(own, primitives=other_primitives(own))) != result:
        return "program (compiled and plain kernels differ)"
    return f"{TRANSIENT} (computed again on every backend, the result is right)"
