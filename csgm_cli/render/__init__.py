"""Model objects to text: one module per format, each returns a string."""
