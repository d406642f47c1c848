"""Figures: series -> SVG. Each draws from small collected series; adding one is a file and a line in FIGURES."""

from analysis.report.figures.catalogue import FIGURES, build

__all__ = ["FIGURES", "build"]
