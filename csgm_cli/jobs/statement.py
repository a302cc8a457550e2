"""The assumptions of an answer, as slugs, and its statement, one publishable paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.model.certificate import Proof
from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism
from csgm_cli.rounding import round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.model.result import Guarantee

#: What each assumption means.
ASSUMPTIONS = {
    "clipping-enforced": "every client's vector is clipped to the stated norms",
    "one-participation-per-round": "a client contributes at most once to each counted round",
    "disjoint-cohorts": "clients take part in disjoint cohorts in a fixed order",
    "one-participation-per-epoch": "a client contributes at most once to each epoch",
    "bounded-participations": "a client contributes to at most the stated number of steps",
    "min-separation": "any two of these steps are at least the stated number of steps apart",
    "trusted-server": "the server adds the noise and reveals only its output",
    "masks-secret": "the masks are not revealed",
    "fixed-order": "all clients take part in the same order in every pass, so that the steps of one client"
    " are exactly the stated number of steps apart",
    "masks-fresh": "a client draws a new mask in every step",
    "masks-bernoulli": "every coordinate is sent independently with probability gamma",
    "participation-poisson": "in each round every client takes part independently with the stated"
    " probability, drawn afresh and not chosen by availability",
    "participation-secret": "nobody who sees the outputs learns who took part, nor how many clients did",
    "fixed-denominator": "the sum is divided by a number fixed in advance, never by the number of clients"
    " that took part",
}

_PROOFS = {
    Proof.EXACT: "the exact privacy profile of the Gaussian mechanism",
    Proof.RENYI: "Renyi differential privacy at a real order",
    Proof.GAUSSIAN_MATCHED: "domination by the Gaussian mechanism with the same Renyi divergence",
    Proof.CONCENTRATED: "a convex test-function bound at the worst-case client vector",
    Proof.PROFILE: "the exact privacy profile at the worst-case client vector",
    Proof.MASK_REVEALED: "the exact privacy profile with the masks revealed",
    Proof.TRIANGLE: "the triangle inequality of hockey-stick divergences through the data without the client",
}
_PAPER = "Renyi differential privacy at an integer order (Chen et al. 2024, Theorem 4.1, corrected)"
_DIRECTIONS = {
    Bound.TIGHT_ADD: ", add direction",
    Bound.TIGHT_REMOVE: ", remove direction",
}

#: The theorems that a bound may rest on, the usual one first.
PROOFS_OF = {
    Bound.EXACT: (Proof.EXACT,),
    Bound.RDP: (Proof.RENYI,),
    Bound.PAPER: (Proof.RENYI,),
    Bound.MASK_REVEALED: (Proof.MASK_REVEALED,),
    Bound.TIGHT_ADD: (Proof.GAUSSIAN_MATCHED, Proof.CONCENTRATED),
    Bound.TIGHT_REMOVE: (Proof.GAUSSIAN_MATCHED, Proof.CONCENTRATED, Proof.RENYI),
    Bound.REPLACE_ONE: (Proof.TRIANGLE,),
    Bound.PROFILE: (Proof.PROFILE,),
}


def proof_in_words(bound: Bound, proof: Proof | None) -> str:
    """The proof of an answer and its direction."""
    if bound is Bound.PAPER:
        return _PAPER
    return _PROOFS[proof or PROOFS_OF[bound][0]] + _DIRECTIONS.get(bound, "")


_NEIGHBOURS = {
    Adjacency.ADD_REMOVE: "adding or removing one client's contribution",
    Adjacency.REPLACE_ONE: "replacing one client's contribution",
}


def assumptions_of(mechanism: Mechanism, bound: Bound) -> tuple[str, ...]:
    """The slugs of `ASSUMPTIONS` that the answer needs; revealed masks need not be secret."""
    schedule = ["disjoint-cohorts"] if mechanism.disjoint_cohorts else []
    slugs = ["clipping-enforced", *_counted(mechanism), *schedule, "trusted-server"]
    if not mechanism.sends_all and bound is not Bound.MASK_REVEALED:
        slugs += ["masks-secret", "masks-bernoulli", *(["masks-fresh"] if mechanism.repeated else [])]
    if mechanism.sampling_rate < 1.0:
        slugs += ["participation-poisson", "participation-secret", "fixed-denominator"]
    return tuple(slugs)


def _counted(mechanism: Mechanism) -> tuple[str, ...]:
    if mechanism.repeated is not None:
        return (
            "bounded-participations",
            "fixed-order" if mechanism.repeated.fixed_order else "min-separation",
        )
    return (f"one-participation-per-{'round' if mechanism.factorization is None else 'epoch'}",)


def statement(mechanism: Mechanism, sigma: float, guarantee: Guarantee) -> str:
    """The guarantee in one paragraph: mechanism, noise, composition, adjacency, proof, assumptions."""
    kind = mechanism.kind
    sent = f", each coordinate sent with probability {mechanism.gamma!r}" if kind.has_gamma else ""
    assumed = "; ".join(ASSUMPTIONS[slug] for slug in guarantee.assumptions)
    proof = proof_in_words(guarantee.bound, guarantee.proof)
    name = kind.words if mechanism.factorization is None else kind.factorized_words
    return (
        f"{name[0].upper()}{name[1:]} with client vectors clipped to {_clip(mechanism)}{sent}, and"
        f" {_noise(mechanism, sigma)}, satisfies"
        f" ({round_up(guarantee.epsilon)}, {round_up(guarantee.delta)})-differential privacy over"
        f" {_composed(mechanism)}, where neighbouring inputs differ by"
        f" {_NEIGHBOURS[mechanism.adjacency]}. Proof: {proof}. Assumed: {assumed}."
    )


def _clip(mechanism: Mechanism) -> str:
    geometry, kind = mechanism.geometry, mechanism.kind
    norms = [f"L2 norm {geometry.l2_norm!r}"] if kind.clips_l2 else []
    norms += [f"L-infinity norm {round_down(geometry.linf_norm)}"] if kind.clips_linf else []
    return " and ".join(norms) + ("" if kind.clips_l2 else f" in {geometry.dim} coordinates")


def _noise(mechanism: Mechanism, sigma: float) -> str:
    factors, std = mechanism.factorization, round_up(sigma, 10)
    if factors is None:
        return f"Gaussian noise of standard deviation {std} on each coordinate of the sum"
    by = "" if factors.strategy is None else f" by the strategy {factors.strategy}"
    return (
        f"correlated noise B Z for the workload {factors.workload} of T = {factors.T} steps,"
        f" factorized{by} as B C with columns of C of norm at most {round_up(factors.sensitivity, 10)},"
        f" where Z is Gaussian of standard deviation {std} in each entry, on the sums of the masked vectors"
    )


def _composed(mechanism: Mechanism) -> str:
    count = mechanism.releases
    if mechanism.sampling_rate < 1.0:
        rounds = f"{count} round{'s' * (count > 1)}, in {'each of ' * (count > 1)}which"
        return f"{rounds} a client takes part with probability {mechanism.sampling_rate!r}"
    if (repeated := mechanism.repeated) is not None:
        how = "exactly" if repeated.fixed_order else "at least"
        return (
            f"a run without a restart, in which a client takes part in up to {count}"
            f" step{'s' * (count > 1)}, {how} {repeated.min_separation} apart{_weighed(mechanism)}"
        )
    if mechanism.factorization is None:
        return f"{count} release{'s' * (count > 1)} that a client can influence"
    return "1 epoch" if count == 1 else f"{count} epochs, each with a fresh Z"


def _weighed(mechanism: Mechanism) -> str:
    """What the participations of one client count as."""
    repeated = mechanism.repeated
    assert repeated is not None  # the caller saw to it
    if mechanism.sends_all:
        joint = round_up(repeated.joint_sensitivity, 10)
        return f", which together have sensitivity {joint} times the clip norm"
    each = round_up(repeated.release_sensitivity, 10)
    return f", each of which counts as a release with clip norms {each} times as large"
