"""Hostile payloads, replays, threads and extreme plans against whole rounds."""

import itertools
import math
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.mechanism import server as server_module
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import FLOAT16, FLOAT32, Plan, Rotation, WireFormat
from csgm_cli.mechanism.server import Server
from csgm_cli.mechanism.wire import HEADER_BYTES, decode
from tests.mechanism.plans import plan_with, reply, unit_vectors

SEED = b"0123456789abcdef"
WIRES = (FLOAT32, FLOAT16, WireFormat(4), WireFormat(5), WireFormat(16))


def plan_for(name, wire, rotation=Rotation.NONE, dim=9, gamma=0.5, ratio=2.0, l2_norm=1.0):
    geometry = csgm.Geometry(min(ratio, math.sqrt(dim)), l2_norm, dim=dim, cohort_size=2)
    gamma = 1.0 if name == "gaussian" else gamma
    return Plan(csgm.Mechanism(name, gamma, geometry, rounds=1), 1e-9 * l2_norm, rotation, wire)


# ---------------------------------------------------------------- payloads


@given(
    name=st.sampled_from(["l2-csgm", "linf-csgm", "gaussian"]),
    wire=st.sampled_from(WIRES),
    body=st.binary(min_size=64, max_size=64),
    flips=st.lists(st.integers(0, 8 * 80 - 1), max_size=3),
    plain=st.booleans(),
)
@settings(max_examples=500)
def test_whatever_is_accepted_is_within_the_clips(name, wire, body, flips, plain):
    """Any bytes for values, or a client's payload with some bits flipped; in exact arithmetic."""
    plan = plan_for(name, wire)
    payload = bytearray(encode(plan, np.linspace(-1, 1, 9), SEED))
    if not plain:
        payload[HEADER_BYTES:] = body[: len(payload) - HEADER_BYTES]
    for bit in flips:
        payload[bit // 8 % len(payload)] ^= 1 << bit % 8
    try:
        _, values = decode(plan, bytes(payload), SEED)
    except UsageError as error:
        assert error.slug.startswith("payload-")  # noqa: PT017 - most payloads are refused
        return
    exact = [Fraction(float(value)) for value in values]
    assert all(abs(value) <= Fraction(plan.linf_norm) for value in exact)
    if name != "linf-csgm":
        assert sum(value**2 for value in exact) <= Fraction(plan.l2_norm) ** 2


def test_replays_are_refused():
    """A payload of another client, of another round, of a dropped round, or of the same client again."""
    server = Server(plan_with(1.0, "l2-csgm", 0.5, ratio=2.0))
    first = server.draw("ab")
    payloads = {client: encode(server.plan, np.ones(8), first.seed_of(client)) for client in "ab"}
    first.add("a", payloads["a"])
    for client, payload, slug in (("a", payloads["a"], "bad-reply"), ("b", payloads["a"], "payload-plan")):
        with pytest.raises(UsageError) as caught:
            first.add(client, payload)
        assert caught.value.slug == slug
    for _ in range(2):  # after a dropped round, and after a release
        later = server.draw("ab")
        for client in "ab":
            with pytest.raises(UsageError) as caught:
                later.add(client, payloads[client])
            assert caught.value.slug == "payload-plan"
        reply(later, unit_vectors("ab"))
        later.release()


# ---------------------------------------------------------------- threads


def run_all(threads):
    threads = list(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_two_replies_at_once_one_counts(monkeypatch):
    """Both are decoded before either is added."""
    server = Server(plan_with())
    cohort = server.draw("ab")
    payload = encode(server.plan, np.full(8, 0.1), cohort.seed_of("a"))
    barrier, refused = threading.Barrier(2), []

    def slow(*arguments):
        found = decode(*arguments)
        barrier.wait(10)
        return found

    def add():
        try:
            cohort.add("a", payload)
        except UsageError as error:
            refused.append(error.slug)

    monkeypatch.setattr(server_module, "decode", slow)
    run_all(threading.Thread(target=add) for _ in range(2))
    assert refused == ["bad-reply"]
    assert cohort.release() == pytest.approx(np.full(8, 0.1 / 4), abs=1e-6)


def test_replies_and_releases_of_many_threads_add_up():
    """No reply is lost, and each release is made once."""
    clients = range(40)
    server = Server(plan_with(cohort_size=40, dim=4096, rounds=3))
    cohort = server.draw(clients)
    payloads = [encode(server.plan, np.full(4096, 0.01), cohort.seed_of(client)) for client in clients]
    found = []

    def work(first):
        for client in clients[first::4]:
            cohort.add(client, payloads[client])

    def release():
        try:
            found.append(cohort.release())
        except UsageError as error:
            found.append(error.slug)

    run_all(threading.Thread(target=work, args=(first,)) for first in range(4))
    run_all(threading.Thread(target=release) for _ in range(4))
    [mean] = [release for release in found if not isinstance(release, str)]
    assert [release for release in found if isinstance(release, str)] == ["round-over"] * 3
    assert server.released == 1
    np.testing.assert_allclose(mean, 0.01, atol=1e-6)


# ---------------------------------------------------------------- extreme plans and vectors


@pytest.mark.parametrize("rotation", Rotation)
@pytest.mark.parametrize("dim", [1, 2, 3, 31, 100])
@pytest.mark.parametrize("l2_norm", [1e-30, 1.0, 1e30])
def test_rounds_at_the_ends_of_the_ranges(rotation, dim, l2_norm):
    """Dimensions with and without padding, ratios of 1 and sqrt(dim), gamma of four steps of 2^-32 and 1,
    tiny and huge vectors: the release is the sum of what clients sent, over n gamma, up to ten standard
    deviations (one number in 1e23 is further off).
    """
    cohorts = (
        [np.zeros(dim), np.full(dim, 5e-324)],
        [np.full(dim, 1.7e308), np.full(dim, l2_norm * 1e-3)],
        [np.r_[l2_norm, np.zeros(dim - 1)]],
    )
    for ratio, gamma, name in itertools.product((1.0, math.sqrt(dim)), (1e-9, 1.0), ("l2-csgm", "gaussian")):
        try:
            plan = plan_for(name, FLOAT32, rotation, dim, gamma, ratio, l2_norm)
        except UsageError as error:
            assert error.slug == "cannot-run"  # noqa: PT017 - padding where all dim may be at the clip
            continue
        for vectors in cohorts:
            cohort = Server(plan).draw(range(len(vectors)))
            reply(cohort, dict(enumerate(vectors)))
            expected = csgm.rotate_back(plan, cohort.total.copy()) / (2 * plan.gamma)
            noise = 10 * plan.sigma / (2 * plan.gamma)
            np.testing.assert_allclose(cohort.release(), expected, atol=noise, rtol=1e-12)
            assert np.linalg.norm(expected) <= len(vectors) * l2_norm / (2 * plan.gamma) * (1 + 1e-9)
