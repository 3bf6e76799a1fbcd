"""Runs as an HTML page and as pictures: panels, and two back ends that draw them."""
