"""The health and the progress of a run."""
