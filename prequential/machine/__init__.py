"""This machine: processor and memory, compiled kernels, signals, processes."""
