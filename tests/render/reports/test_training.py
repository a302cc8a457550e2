"""The report of a training fits on a terminal."""

import pytest

from csgm_cli.render import render


@pytest.mark.parametrize("dataset", ["synthetic", "/usr/share/datasets/fashion-mnist", "/" + 300 * "x", "/"])
def test_no_line_is_wider_than_80_columns(documents, dataset):
    """With the longest names, and numbers of large models and cohorts."""
    document = documents["train"]
    asked = {"T": 4096, "strategy": "toeplitz-sqrt-normalized", "epochs": 100_000, "dim": 2**27}
    asked |= {"population_size": 10**9, "cohort_size": 10**6, "sampling_rate": 0.000123456}
    asked |= {"partition": "dirichlet:0.12345", "mechanism": "linf-csgm", "model": "mlp:123456"}
    cost = {**document["result"]["cost"], "bytes_per_client": 1.23456e8, "dense_bytes_per_client": 2**29}
    result = {**document["result"], "dataset": dataset, "cost": cost, "parameters": 2**27}
    wide = {**document, "inputs": {**document["inputs"], **asked}, "result": result}
    lines = render(wide, "text").partition("warning[")[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("data ") and line.split()[1].endswith(dataset[-10:]) for line in lines)
