"""Proven upper and lower bounds on delta for all client vectors, with their certificates."""
