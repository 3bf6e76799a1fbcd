"""Learners of other people: what they must offer (protocol.py), how they are coded (adapted.py), and where they come from."""
