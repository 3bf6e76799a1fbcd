"""Checks that this machine is exact, and that a learner keeps the law."""
