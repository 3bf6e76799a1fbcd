"""What a code length consists of: the cost of learning and the rest."""
