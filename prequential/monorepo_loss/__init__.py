"""The loss of the text that new commits add to a repository."""
