"""Sensitivity of C for clients that take part several times (docs/theory.md, "Repeated participation")."""
