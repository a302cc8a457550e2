"""Renyi accounting: log-moments, the curves of the mechanisms, and conversion to (epsilon, delta)."""
