"""From symbols and probabilities to bits and back: the archive, the coder that writes it, and the baseline compressors."""
