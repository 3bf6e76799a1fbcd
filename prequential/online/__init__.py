"""The loop, and what a run needs: source, limits, checkpoints, audits, devices."""
