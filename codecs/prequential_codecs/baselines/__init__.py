"""Codes that a learner is compared with: compressors and static models."""
