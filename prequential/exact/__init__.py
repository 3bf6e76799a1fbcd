"""Integer-exact tensor arithmetic: the same bits on every processor, device, library and thread count (docs/EXACT.md)."""
