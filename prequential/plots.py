"""Curves and tables of results, drawn with matplotlib. It is imported when it is first used."""

from prequential.report.plots import costs, front, learning_curves, monorepo, regret, text

__all__ = ["costs", "front", "learning_curves", "monorepo", "regret", "text"]
