"""A larger run forecast from a ladder of smaller ones, and the score of the forecast."""
