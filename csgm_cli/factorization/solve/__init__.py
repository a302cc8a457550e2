"""The optimal factorization by its dual problem, with a certificate."""
