"""Figures that the text of the documentation quotes are recomputed."""

import math
from dataclasses import replace
from importlib.metadata import version

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import csgm_cli
from csgm_cli.local.randomizer import optimal_randomizer, sphere_error
from csgm_cli.rounding import round_up
from tests.docs.pages import COMPARISON, DP_SGD, GUIDE, README, ROOT, THEORY


def test_the_price_of_compression_in_the_readme():
    """Its noise beside that of the Gaussian mechanism, and its distance from the lower bounds."""
    text = README.read_text(encoding="utf-8")
    target, gap = csgm_cli.Target(5, 1e-8), 0.0
    for gamma, sent in ((1.0, "all coordinates"), (0.1, "1 in 10"), (0.01, "1 in 100")):
        mechanism = csgm_cli.Mechanism("l2-csgm", gamma, csgm_cli.Geometry(1000.0), 1)
        found = csgm_cli.calibrate(mechanism, target)
        effective, plain = found.effective_noise_multiplier, found.gaussian_noise_multiplier
        more = "" if gamma == 1.0 else f" {round_up(100 * (effective / plain - 1), 2)} % more noise"
        row = f"| {sent} | {round_up(found.noise_multiplier)} | {round_up(effective)} |{more} |"
        assert row in text
        gap = max(gap, 1 - found.guarantee.lower_bound / found.noise_multiplier)
    assert f"within {round_up(100 * gap, 1)} % of the proven lower bound" in text


def in_words(percent: float) -> str:
    """Two digits, as the text has them."""
    return f"{percent:.2g} %"


def test_what_tight_gains_in_the_guide():
    """Its noise beside that of rdp, and its lower bound beside that."""
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    mechanism, target = (
        csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(1000.0)),
        csgm_cli.Target(5, 1e-8),
    )
    tight, rdp = (csgm_cli.calibrate(mechanism, target, name) for name in ("tight", "rdp"))
    noise, lower = tight.noise_multiplier, tight.guarantee.lower_bound
    assert f"than `rdp`: {in_words(100 * (1 - noise / rdp.noise_multiplier))} less" in text
    assert f"can go below, here {in_words(100 * (1 - lower / noise))} further down" in text
    replaced = replace(mechanism, adjacency="replace-one")
    tight, rdp = (csgm_cli.calibrate(replaced, target, name) for name in ("tight", "rdp"))
    less = in_words(100 * (1 - tight.noise_multiplier / rdp.noise_multiplier))
    assert f"and {less} less there under replace-one" in text


def test_what_tight_gains_in_the_theory():
    """Every ratio of the table, to its last digit."""
    table = THEORY.read_text(encoding="utf-8").partition("| eps, delta, k, T |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(rows) == 19
    setting = ""
    for first, gamma, over_tight, over_lower in rows:
        setting = first or setting
        epsilon, delta, k, rounds = (float(number.replace("10^", "1e")) for number in setting.split(","))
        mechanism = csgm_cli.Mechanism("l2-csgm", float(gamma), csgm_cli.Geometry(math.sqrt(k)), rounds)
        tight, rdp = (
            csgm_cli.calibrate(mechanism, csgm_cli.Target(epsilon, delta), name) for name in ("tight", "rdp")
        )
        assert f"{rdp.sigma / tight.sigma:.3f}" == over_tight
        digits = len(over_lower) - 2
        assert f"{tight.noise_multiplier / tight.guarantee.lower_bound:.{digits}f}" == over_lower


@pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="the page speaks of 0.6.0")
def test_figures_of_another_accountant():
    """What the page says of dp-accounting's answers, and of csgm's own beside them, comes out here."""
    text = " ".join(COMPARISON.read_text(encoding="utf-8").split())
    guess = dp_accounting.LowerEndpointAndGuess
    composed = dp_accounting.calibrate_dp_mechanism(
        RdpAccountant,
        lambda sigma: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma)), 10**6
        ),
        *(5, 1e-8, guess(1, 12)),
        tol=1e-7,
    )
    ours = csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(1000.0))
    effective = csgm_cli.calibrate(ours, csgm_cli.Target(5, 1e-8), "rdp").effective_noise_multiplier
    said = (
        f"noise multiplier of {composed / 10:.6f} for epsilon 5, delta 1e-8, gamma 0.01 and norm ratio 1000,"
        f" csgm's `rdp` {effective:.6f}."
    )
    assert said in text

    lost = dp_accounting.calibrate_dp_mechanism(
        RdpAccountant, dp_accounting.GaussianDpEvent, 0.01, 1e-8, guess(1e-3, 1), tol=1e-3
    )
    gaussian, target = csgm_cli.Mechanism("gaussian"), csgm_cli.Target(0.01, 1e-8)
    rdp, exact = (csgm_cli.calibrate(gaussian, target, name).sigma for name in ("rdp", "exact"))
    assert f"dp-accounting 0.6.0 returns noise {lost / 1e7:.1f}e7;" in text
    assert f"csgm returns {rdp:.1f} by RDP and {exact:.1f} by the exact profile" in text

    replaced = {}
    for kind in (RdpAccountant, PLDAccountant):
        accountant = kind(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
        replaced[kind] = accountant.compose(dp_accounting.GaussianDpEvent(1.0)).get_epsilon(1e-6)
    said = f"({replaced[RdpAccountant]:.2f} for noise 1 at delta 1e-6, where its own PLD says"
    assert f"{said} {replaced[PLDAccountant]:.1f})" in text


@pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="the page speaks of 0.6.0")
def test_dp_sgd_beside_another_accountant():
    """Both ways to ask csgm; at its own noise multipliers dp-accounting finds the target."""
    text = " ".join(DP_SGD.read_text(encoding="utf-8").split())
    target = csgm_cli.Target(3, 1e-6)
    alias = csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(dim=1), rounds=1000)
    sampled = csgm_cli.Mechanism("gaussian", rounds=1000, sampling_rate=0.01)
    exact = csgm_cli.calibrate(alias, target).noise_multiplier
    rdp = csgm_cli.calibrate(sampled, target, "rdp").noise_multiplier
    assert f"| csgm, exact profile | {round_up(exact)} |" in text
    assert f"| csgm, `rdp` | {round_up(rdp)} |" in text
    for kind, noise in ((PLDAccountant, 0.865219), (RdpAccountant, 0.916994)):
        assert f" | {noise} |" in text
        assert dp_epsilon(kind, noise, 0.01, 1000, 1e-6) == pytest.approx(3, rel=1e-4)


@pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="the page speaks of 0.6.0")
def test_epsilon_of_dp_sgd_beside_another_accountant():
    """By Renyi orders and by the profile."""
    text = " ".join(DP_SGD.read_text(encoding="utf-8").split())
    rate = 1024 / 50_000
    sampled = csgm_cli.Mechanism("gaussian", rounds=1464, sampling_rate=rate)
    alias = csgm_cli.Mechanism("l2-csgm", rate, csgm_cli.Geometry(dim=1), rounds=1464)
    rdp = csgm_cli.account_epsilon(sampled, 1.54, [1e-5], "rdp").guarantees[0].epsilon
    exact = csgm_cli.account_epsilon(alias, 1.54, [1e-5]).guarantees[0].epsilon
    theirs = dp_epsilon(RdpAccountant, 1.54, rate, 1464, 1e-5)
    said = f"`rdp` {round_up(rdp)}, as dp-accounting's RDP ({theirs:.5f}); the exact profile"
    assert f"{said} {round_up(exact)}, as its PLD." in text
    assert dp_epsilon(PLDAccountant, 1.54, rate, 1464, 1e-5) == pytest.approx(exact, rel=1e-4)


def dp_epsilon(kind, noise, rate, steps, delta):
    """The epsilon of DP-SGD by an accountant of dp-accounting."""
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return kind().compose(dp_accounting.SelfComposedDpEvent(event, steps)).get_epsilon(delta)


def test_ratios_on_the_page_about_local_privacy():
    """What the text says of error and bits is in the tables above it; limits by the page's formulas."""
    page = (ROOT / "docs" / "local-privacy.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    rows = {tuple(line.split()[:2]): line.split() for line in page.splitlines()}
    many, single, sparse = rows["512", "messages"], rows["1", "message"], rows["l2-csgm", "0.001"]
    assert f"512 messages ({int(many[5]):,} bits) has {float(many[4]):.2f} times" in text
    assert f"L2-CSGM with {int(sparse[6]):,} bits has {float(sparse[5]):.2f} times" in text
    assert single[-1] == "privunit-blanket"
    assert f"one message of {single[5]} bits costs {float(single[4]):.1f} times the error" in text
    assert f"{float(single[2]):.2f} for one message here" in text
    most = rows["4096", "messages"]
    assert f"{4096 * float(most[2]):.0f} for 4096 messages" in text
    assert f"At 4096 messages the ratio above is {float(most[4]):.2f}" in text
    randomizer = optimal_randomizer(4.0)
    share = 1 - sphere_error(100, 4.0, randomizer.cap_mass) / randomizer.mean_squared_error(100)
    assert f"about {100 * share:.0f} % at d = 100 and e0 = 4" in text
