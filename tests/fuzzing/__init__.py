"""The fuzzing driver: shared by ``tests/cli/test_fuzz.py`` and ``benchmarks/fuzz.py``."""
