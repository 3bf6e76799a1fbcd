"""One computation of the GPT done again in other ways: which ways there are, and what their agreement says about a fault.

Every exact backend and either kind of kernel gives the same bits (docs/EXACT.md). Where a result deviates, the ways that share
the deviation name its cause.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from prequential.errors import InexactMachineError
from prequential.exact import fused, matmul, plain
from prequential.exact.matmul import Matmul, Tensor

MEMORY = "memory"
TRANSIENT = "memory or processor"


@dataclass(frozen=True)
class Way:
    """Kernels and products that compute a GPT."""

    ops: ModuleType
    matmul: Matmul

    @property
    def other_ops(self) -> ModuleType:
        """The kernels that this way does not use."""
        return fused if self.ops is plain else plain

    @property
    def opposite(self) -> "Way":
        """What shares as little as possible: the other kernels, and products by other library routines throughout.

        With one exact backend, only the kernels are others.
        """
        names = [backend.name for backend in exact_backends()]
        products = next((name for name in names if name != self.matmul.name), self.matmul.name)
        batches = "float32" if self.matmul.name == "float64" else "float64"
        return Way(self.other_ops, Crossed(products, batches if batches in names else self.matmul.name))


@dataclass(frozen=True)
class Crossed(Matmul):
    """One backend's products of matrices and another's batched ones: int8 and float32 have the same of the latter."""

    batches: str

    def batched(self, a: Tensor, b: Tensor) -> Tensor:
        return Matmul(self.batches).batched(a, b)


def exact_backends() -> list[Matmul]:
    """Every backend that passed its self-test on this machine, in the order of their usual speed."""
    passed = []
    for name in matmul.BACKEND_NAMES:
        try:
            passed.append(matmul.choose("cpu", name))
        except InexactMachineError:
            continue
    return passed


def cause(compute: Callable[[Way], bytes], own: Way, observed: bytes | None = None) -> str:
    """The likely cause of a deviation, in words.

    compute: the digest of what a way makes of the same operands. own: the way the run computes. observed: what the run got, where
    that is known. If it does not come again, or all ways agree now, it was a passing fault of memory or processor; if only
    another backend makes a difference, it is the library; if only other kernels do, it is the program.
    """
    result = compute(own)
    if compute(own) != result or observed not in (None, result):
        return f"{TRANSIENT} (computed again it comes out otherwise)"
    results = {own.matmul.name: result}
    results |= {b.name: compute(Way(own.ops, b)) for b in exact_backends() if b != own.matmul}
    if len(set(results.values())) > 1:
        few = _minority(results, own.matmul.name)
        return f"library (products by {', '.join(few)} differ from those by {', '.join(results.keys() - set(few))})"
    if compute(Way(own.other_ops, own.matmul)) != result:
        return "program (compiled and plain kernels differ)"
    return f"{TRANSIENT} (computed again in every way it comes out right)"


def _minority(results: dict[str, bytes], own: str) -> list[str]:
    """Names of those results that differ from the most frequent one; of two that differ, `own`."""
    (common, count), *_ = Counter(results.values()).most_common()
    if count == 1 and len(results) > 1:
        return [own]
    return [name for name, result in results.items() if result != common]
