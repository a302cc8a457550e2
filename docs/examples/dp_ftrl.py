"""Train with DP-FTRL: correlated noise from matrices that csgm exported, drawn row by row with NumPy.

First write the matrices to a file, then run the script beside it::

    csgm factorize --T 64 --output factors.npz
    python dp_ftrl.py

A model is the running sum of its updates, so it is the noise of the SUMS that hurts. DP-FTRL lets later noise
cancel part of the earlier noise. With A the matrix of running sums (ones on and below the diagonal), the
factorization A = B C turns independent noise Z into the increments C^-1 Z; the sums then have noise B Z.
"""

import numpy as np

import csgm_cli as csgm

DIM, COHORT = 10_000, 100
L2_NORM = 1.0  # each client's update is clipped to this norm; a client takes part in one step

saved = np.load("factors.npz")
B, C, C_inv = saved["B"], saved["C"], saved["C_inv"]
T = len(C)

# The file is what it should be: a factorization of running sums, with a causal inverse.
print(T, np.allclose(B @ C, np.tri(T)), np.allclose(C_inv, np.tril(C_inv)))  # -> 64 True True

# A client changes one row of the input, so the release changes by one column of C. Its largest column norm is
# the sensitivity, and sigma grows with it. csgm reads it from the file.
norms = csgm.norms_of_file("factors.npz")
mechanism = csgm.Mechanism("gaussian", factorization=norms, epochs=1)
sigma = csgm.calibrate(mechanism, csgm.Target(epsilon=2, delta=1e-6)).sigma
sensitivity = np.linalg.norm(C, axis=0).max()
print(f"sensitivity {sensitivity:.4f}, sigma {sigma:.4f}")  # -> sensitivity 1.0000, sigma 2.2305


def increments(rng):
    """Yield row t of C^-1 Z for t = 0, 1, ...; it needs the rows of Z up to t only."""
    z = np.empty((T, DIM))
    for t in range(T):
        z[t] = rng.normal(scale=sigma, size=DIM)
        yield C_inv[t, : t + 1] @ z[: t + 1]


def clip(update):
    """Scale an update down to the L2 clip norm."""
    return update * min(1.0, L2_NORM / np.linalg.norm(update))


# Seeds make a toy reproducible. A real server must keep them secret, and needs a secure source of noise.
clients, noise_source = np.random.default_rng(1), np.random.default_rng(2)
goal = clients.normal(size=DIM)
model, without_noise = np.zeros(DIM), np.zeros(DIM)
errors = []
for noise in increments(noise_source):
    # Each client pulls the model towards the goal, with noise of its own.
    updates = [clip(goal - model + clients.normal(size=DIM)) for _ in range(COHORT)]
    total = np.sum(updates, axis=0)
    model += (total + noise) / COHORT  # noise on the SUM of the updates, then the mean
    without_noise += total / COHORT
    errors.append(np.mean((COHORT * (model - without_noise)) ** 2))  # of the running sum, per coordinate

# After step t the sum has row t of B Z as its noise: the variance is sigma^2 times the squared norm of row t.
predicted = sigma**2 * np.sum(B**2, axis=1)
print(np.allclose(errors, predicted, rtol=0.1))  # -> True

# Independent noise of the same privacy adds up: after T steps its variance is T sigma^2.
ratio = T * sigma**2 / predicted[-1]
print(f"independent noise: {ratio:.1f} times the variance")  # -> independent noise: 12.1 times the variance
