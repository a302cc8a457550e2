"""Options: their definitions, how values are read, and which source wins."""
