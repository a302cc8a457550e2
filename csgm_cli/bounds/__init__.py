<<<<<<< HEAD
"""Proven upper and lower bounds on delta for all client vectors, with their certificates."""
=======
"""Proven bounds on the privacy loss of every client, and the conditions that they need."""
>>>>>>> exponent
