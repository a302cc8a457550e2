"""What a plot shows, and how it is drawn."""
