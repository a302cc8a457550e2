"""Run a mechanism many times: its error against the formulas, and an audit of its privacy (docs/run.md)."""
