"""The GPT of a stored model as a plain torch module."""
