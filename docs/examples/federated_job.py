"""Calibrate the noise of a federated training job, and check it against a privacy budget.

Run it with ``python federated_job.py``; it needs csgm alone.

100,000 phones train a keyboard model. In each of 500 rounds, a cohort of 1,000 phones sends its clipped model
updates. To save upload, each phone sends only 5 % of the coordinates, chosen at random. The server adds
Gaussian noise to the sum. How much noise keeps every phone's contribution private?
"""

import csgm_cli as csgm

PHONES = 100_000
COHORT = 1_000
TRAINING_ROUNDS = 500
DIM = 1_000_000  # model coordinates
GAMMA = 0.05  # probability that a coordinate is sent
L2_NORM = 1.0  # each update is clipped to this L2 norm

# Cohorts are disjoint until every phone has had its turn, so one phone is in 500 * 1,000 / 100,000 rounds.
# Privacy depends on this count, not on the number of training rounds.
rounds, explanation = csgm.rounds_from_participation(PHONES, COHORT, TRAINING_ROUNDS)
print(f"{rounds} rounds per phone")  # -> 5 rounds per phone

# Clients also clip each coordinate. After a random rotation, all coordinates of an update are about equally
# large, so that a small L-inf clip norm loses almost nothing; it makes sparse sending private.
geometry, notices = csgm.resolve_geometry(l2_norm=L2_NORM, dim=DIM, cohort_size=COHORT)
print(f"clip each coordinate at {geometry.linf_norm!r}")  # -> clip each coordinate at 0.0064378980788680415

# The target: epsilon 4, and a delta well below 1 / number of phones.
mechanism = csgm.Mechanism("l2-csgm", GAMMA, geometry, rounds, disjoint_cohorts=True)
answer = csgm.calibrate(mechanism, csgm.Target(epsilon=4, delta=1e-7))
print(f"noise multiplier {answer.noise_multiplier:.5f}")  # -> noise multiplier 0.14552

# Add this much noise to every coordinate of the SUM of the updates, then divide by COHORT * GAMMA. Take
# answer.sigma itself: a rounded number may be too small.
print(f"sigma {answer.sigma:.5f} on the sum")  # -> sigma 0.14552 on the sum

# What does compression cost? Compare the effective noise with that of the plain Gaussian mechanism.
plain = csgm.calibrate(csgm.Mechanism("gaussian", rounds=rounds), csgm.Target(epsilon=4, delta=1e-7))
extra = answer.effective_noise_multiplier / plain.noise_multiplier - 1
print(f"{100 * extra:.1f} % more noise, 20 times fewer values")  # -> 0.3 % more noise, 20 times fewer values

# The same phones also report a daily count for a year, with plain Gaussian noise. Both releases are about the
# same people, so both count against one limit: epsilon 5 at delta 1e-7.
counts = csgm.Mechanism("gaussian", rounds=365)
releases = (
    csgm.Release("keyboard", mechanism, sigma=answer.sigma),
    csgm.Release("daily-counts", counts, sigma=100.0),
)
phones = csgm.Population("phones", csgm.Target(epsilon=5, delta=1e-7), releases=releases)
standing = csgm.check_population(phones)
print(f"spent {standing.spent:.3f}, holds: {standing.holds}")  # -> spent 4.134, holds: True

# The total is less than the sum of both epsilons. So many further rounds of each release would still fit:
more = {checked.release.name: checked.more_rounds for checked in standing.releases}
print(more)  # -> {'keyboard': 2, 'daily-counts': 2563}

# The guarantee in one paragraph, for the model card. It names what it assumes.
print("(4, 1e-7)-differential privacy" in answer.statement)  # -> True
