"""Pure mathematics: numbers in, model objects out. No input or output."""
