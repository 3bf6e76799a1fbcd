"""Integer-exact tensor arithmetic: the same bits on any CPU, thread count, library and device. See docs/EXACT.md."""
