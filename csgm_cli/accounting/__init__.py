"""Privacy accounting for one or several releases: epsilon, delta, smallest noise, remaining budget."""
