"""Time, memory and size before a run."""
