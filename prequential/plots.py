"""Curves and tables of results, drawn with matplotlib. It is imported when it is first used."""

from prequential.report.plots import costs, learning_curves, monorepo, regret, text

__all__ = ["costs", "learning_curves", "monorepo", "regret", "text"]
