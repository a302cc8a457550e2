"""Linear algebra with structured matrices, in O(T) where the dense form takes O(T^2) or more."""
