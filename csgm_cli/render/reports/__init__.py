"""Text reports, one module per kind of document, rounded to the safe side."""
