"""Where results go: reports, plots, and progress on stderr."""
