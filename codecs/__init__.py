"""Symbols and probabilities to bits and back: the archive, the coder that writes it, and the baselines beside it."""
