"""The code length of somebody's training run: a recorder in their loop, and logs that an earlier loop left."""
