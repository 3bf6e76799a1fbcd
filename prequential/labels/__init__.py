"""The description length of labels, given their inputs."""
