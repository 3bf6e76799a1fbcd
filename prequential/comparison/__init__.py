"""The difference of runs over the same data, and its intervals."""
