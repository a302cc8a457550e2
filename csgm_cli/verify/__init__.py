"""The package's bounds recomputed in high precision, by code that shares nothing with the float64 path."""
