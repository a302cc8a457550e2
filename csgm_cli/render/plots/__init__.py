"""Figures and their renderers."""
