"""Privacy profiles, and means of convex test functions of the likelihood ratio."""
