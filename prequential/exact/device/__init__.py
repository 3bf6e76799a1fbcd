"""The exact primitives as Triton kernels for a CUDA device."""
