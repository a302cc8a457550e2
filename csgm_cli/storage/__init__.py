"""Bytes to model objects and back."""
