"""Output formats, one module each; one is imported when it is first asked for."""
