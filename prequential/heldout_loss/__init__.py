"""The loss on one corpus after training on another."""
