"""Run a mechanism many times: its error, an audit (docs/run.md), the training of a model (docs/train.md)."""
