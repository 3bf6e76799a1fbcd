"""Compiles every Triton kernel for a CUDA device of the given capability, without one, and prints what test_triton.py expects.

A line for each kernel: its name, and the float instructions in its code that do not round once, or round differently.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, str(Path(__file__).parent))
import same_bits

from prequential.exact.device import primitives as triton_primitives
from prequential.exact.device import rounding

TYPES = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int8: "*i8", torch.int32: "*i32", torch.int64: "*i64"}
# Float instructions without .rn may be fused later. A minimum, a maximum and a sign are exact.
WRONG = re.compile(
    r"\b(?:fma\.\S*f\d\S*|\S*approx\S*|div\.full\S*|\S+\.ftz\S*|(?:add|sub|mul|div|sqrt)\.f\d\S*|rcp\S*)"
)


def main(capability: int) -> None:
    instructions_of: dict[str, set[str]] = defaultdict(set)
    done = set()

    def compile_only(kernel: Any, grid: tuple[int, ...], *arguments: Any, width: int, **constants: Any) -> None:
        signature = {}
        for name, x in zip(kernel.arg_names, arguments, strict=False):
            if isinstance(x, torch.Tensor):
                signature[name] = TYPES[x.dtype]
            elif x == 1:  # as at a launch
                constants[name] = 1
            else:
                signature[name] = "i32"
        signature |= dict.fromkeys(constants, "constexpr")
        name, key = kernel.fn.__name__, (kernel.fn.__name__, str(signature), str(constants))
        if key in done:
            return
        done.add(key)
        options = {"enable_fp_fusion": False, "num_warps": 4 if width <= 1024 else 8}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
        instructions_of[name] |= set(WRONG.findall(compiled.asm["ptx"]))

    rounding.launch = compile_only
    same_bits.assert_same_bits = lambda ops, name, *inputs, **named: getattr(ops, name)(*inputs, **named)
    same_bits.check_rows(triton_primitives, 40, 256, seed=1)
    for shape in ((2, 9, 2, 64, 6, 3), (1, 1, 4, 64, 128, 3)):
        same_bits.check_attention(triton_primitives, *shape, seed=2)
    for name, instructions in instructions_of.items():
        print(f"{name}: {sorted(instructions)}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
