"""Proven bounds on the privacy loss of every client, and the conditions that they need."""
