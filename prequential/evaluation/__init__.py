"""The code length of a corpus: archive, ledger, curves, tables, run folders."""
