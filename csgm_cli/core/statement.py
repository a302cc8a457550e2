"""What an answer assumes, as slugs, and what it says, as one paragraph fit for publication."""

from __future__ import annotations

from csgm_cli.core.rounding import round_down, round_up
from csgm_cli.model import Adjacency, Bound, Guarantee, Mechanism, MechanismName

#: What each assumption means.
ASSUMPTIONS = {
    "clipping-enforced": "every client's vector is clipped to the stated norms",
    "one-participation-per-round": "a client contributes at most once to each counted round",
    "trusted-server": "the server adds the noise and shows nobody what it received",
    "masks-secret": "the masks are not revealed",
    "masks-bernoulli": "every coordinate is sent independently with probability gamma",
}

_NAMES = {
    MechanismName.L2_CSGM: "the L2 coordinate-subsampled Gaussian mechanism",
    MechanismName.LINF_CSGM: "the L-infinity coordinate-subsampled Gaussian mechanism",
    MechanismName.GAUSSIAN: "the Gaussian mechanism",
}

_PROOFS = {
    Bound.EXACT: "the exact privacy profile of the Gaussian mechanism",
    Bound.RDP: "Renyi differential privacy at a real order",
    Bound.PAPER: "Renyi differential privacy at an integer order (Chen et al. 2024, Theorem 4.1, corrected)",
    Bound.MASK_REVEALED: "the exact privacy profile of the Gaussian mechanism with the masks revealed",
    Bound.TIGHT_ADD: "a convex test function whose worst vector is known; adding the client decides",
    Bound.TIGHT_REMOVE: "a convex test function whose worst vector is known; removing the client decides",
    Bound.PROFILE: "the privacy profile with every coordinate at its clip",
}

_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "one client's contribution is added or removed",
    Adjacency.REPLACE_ONE: "one client's contribution is replaced by another",
}


def assumptions_of(mechanism: Mechanism, bound: Bound) -> tuple[str, ...]:
    """The slugs of `ASSUMPTIONS` that the answer needs; revealed masks need not be secret."""
    slugs = ["clipping-enforced", "one-participation-per-round", "trusted-server"]
    if not mechanism.is_gaussian and bound is not Bound.MASK_REVEALED:
        slugs += ["masks-secret", "masks-bernoulli"]
    return tuple(slugs)


def statement(mechanism: Mechanism, sigma: float, guarantee: Guarantee) -> str:
    """The guarantee in one paragraph: mechanism, noise, composition, adjacency, proof, assumptions."""
    geometry = mechanism.geometry
    gaussian = mechanism.name is MechanismName.GAUSSIAN
    clip = f"L2 norm {geometry.l2_norm!r}"
    if mechanism.name is MechanismName.LINF_CSGM:
        clip = f"L-infinity norm {round_down(geometry.linf_norm)} in {geometry.dim} coordinates"
    elif not gaussian:
        clip += f" and L-infinity norm {round_down(geometry.linf_norm)}"
    sent = "" if gaussian else f", each coordinate sent with probability {mechanism.gamma!r}"
    releases = "1 release" if mechanism.rounds == 1 else f"{mechanism.rounds} releases"
    assumed = "; ".join(ASSUMPTIONS[slug] for slug in guarantee.assumptions)
    name = _NAMES[mechanism.name]
    return (
        f"{name[0].upper()}{name[1:]} with client vectors clipped to {clip}{sent}, and Gaussian noise of"
        f" standard deviation {round_up(sigma, 10)} on each coordinate of the sum, satisfies"
        f" ({round_up(guarantee.epsilon)}, {round_up(guarantee.delta)})-differential privacy over {releases}"
        f" that a client can influence, where neighbouring inputs differ in that"
        f" {_NEIGHBOURS[mechanism.adjacency]}. Proof: {_PROOFS[guarantee.bound]}. Assumed: {assumed}."
    )
