"""Benchmarks of csgm: ``python -m benchmarks --help``. Never part of the tests."""
