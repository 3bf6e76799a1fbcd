"""Text of a test corpus that a training corpus also contains."""
