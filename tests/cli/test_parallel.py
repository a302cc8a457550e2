"""Work shared by processes: order, errors and an early end."""

import multiprocessing
import os

import pytest

from csgm_cli.cli.parallel import in_order


def whoami(number):
    """A call that says which process made it."""
    return number, os.getpid()


def fails_at_the_end(number):
    """A call that fails once."""
    return 1 / (number - 39)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_are_in_order(jobs):
    """Results come in the order of the calls, from as many processes as asked for at most."""
    numbers = range(5, 64)
    found = list(in_order(whoami, numbers, jobs))
    assert [number for number, _ in found] == list(numbers)
    processes = {process for _, process in found}
    assert len(processes) <= jobs
    assert (os.getpid() in processes) == (jobs == 1)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("numbers", [range(0), range(1)])
def test_too_little_to_share(numbers):
    """One call needs no other process."""
    assert [process for _, process in in_order(whoami, numbers, 4)] == [os.getpid()] * len(numbers)


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_arrive(jobs):
    """What a call raises is raised at its turn, after the results before it, and no process is left."""
    results = in_order(fails_at_the_end, range(8, 40), jobs)
    assert next(results) == 1 / (8 - 39)
    with pytest.raises(ZeroDivisionError):
        list(results)
    assert multiprocessing.active_children() == []


def test_early_end():
    """A caller that stops ends the processes."""
    results = in_order(whoami, range(1000), 2)
    next(results)
    results.close()
    assert multiprocessing.active_children() == []
