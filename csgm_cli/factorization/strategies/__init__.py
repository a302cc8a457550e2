"""Strategies other than the optimum: BLT, streaming, Toeplitz and tree factorizations."""
