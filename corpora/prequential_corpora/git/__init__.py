"""The text of a git repository: its trees, and what commits add."""
