"""Held-out loss: of a learner that read another corpus first, or of trained models that learn nothing."""
