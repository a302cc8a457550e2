"""Factorizations that many tests use, and small chunks so that small streams have several."""

import contextlib
from unittest import mock

import pytest

from csgm_cli.factorization import factorize, parse_workload
from csgm_cli.model.factorization import strategy_named
from csgm_cli.model.participation import Participation
from csgm_cli.noise import dense, normals


@pytest.fixture(scope="session")
def factorization():
    """Of prefix sums, by strategy and T, each solved once; bands for clients that return every 4 steps."""
    found = {}

    def of(strategy, T):
        if (strategy, T) not in found:
            chosen = strategy_named(strategy)
            taken = Participation(-(-T // 4), 4) if chosen.name.is_banded else None
            found[strategy, T] = factorize(parse_workload("prefix-sum", T), chosen, participation=taken)
        return found[strategy, T]

    return of


@pytest.fixture(scope="session")
def small_pieces():
    """A context in which chunks have 8 coordinates and dense products 3 rows and 4 columns."""

    @contextlib.contextmanager
    def patched():
        with (
            mock.patch.object(normals, "CHUNK", 8),
            mock.patch.object(dense, "_ROWS", 3),
            mock.patch.object(dense, "_COLUMNS", 4),
            mock.patch.object(dense, "_AHEAD", 1),
        ):
            yield

    return patched
