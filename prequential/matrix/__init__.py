"""Which corpora teach which: L(X) and L(X given Y)."""
