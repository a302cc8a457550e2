"""Documents made from hand-built results; their numbers are chosen to show rounding, not to be true."""

import math
from dataclasses import replace

import pytest

from csgm_cli import version
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.budget import (
    Changes,
    Place,
    Population,
    PopulationChange,
    Release,
    ReleaseChange,
    ReleaseStanding,
    Standing,
)
from csgm_cli.model.certificate import Proof
from csgm_cli.model.comparison import Comparison, ComparisonRow, Plan, PrivUnitRow, SelftestCase
from csgm_cli.model.factorization import (
    Claim,
    Factorization,
    Inspection,
    Objective,
    Strategy,
    Workload,
)
from csgm_cli.model.mechanism import Accountant, Bound, Conversion, FactorNorms, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.participation import RepeatedParticipation
from csgm_cli.model.result import (
    Account,
    Calibration,
    Guarantee,
    MeanSquaredError,
    NoisePerRow,
    Notice,
    Verification,
)
from csgm_cli.model.simulation import (
    MeanSimulation,
    Prediction,
    TrainingCost,
    TrainingRound,
    TrainingRun,
)
from csgm_cli.render import check_document, document

ASSUMPTIONS = (
    "clipping-enforced",
    "one-participation-per-round",
    "trusted-server",
    "masks-secret",
    "masks-bernoulli",
)
GEOMETRY = Geometry(norm_ratio=1000.0, l2_norm=1.0, dim=1_000_000, cohort_size=1000)
L2_CSGM = Mechanism("l2-csgm", 0.01, GEOMETRY)
GAUSSIAN = Mechanism("gaussian", 1.0, Geometry())

#: Every displayed number has a seventh digit, so that a wrong direction would show.
GUARANTEE = Guarantee(
    epsilon=4.99999999999,
    delta=1e-8,
    order=4.1234567,
    bound=Bound.RDP,
    conversion=Conversion.CKS20,
    assumptions=ASSUMPTIONS,
    lower_bound=0.01199999999,
    verified=Verification(50, 1.234e-15),
    notices=(Notice("high-precision", "mpmath gave the value"), Notice("capped", "the ratio was capped")),
    proof=Proof.RENYI,
)
CALIBRATION = Calibration(
    mechanism=L2_CSGM,
    accountant=Accountant.RDP,
    noise_multiplier=0.01219041001,
    effective_noise_multiplier=1.219041001,
    sigma=0.01219041002,
    guarantee=GUARANTEE,
    statement='With "sigma" = 0.012, it is private | as proven.',
    mean_noise_std=0.001219041001,
    mse=MeanSquaredError(
        privacy=1.486061001,
        sparsification=0.09900000001,
        total=1.585061001,
        gaussian_total=1.4,
        ratio=1.132186430,
    ),
    bits_per_client=320000.1,
    notices=(Notice("capped", "the ratio was capped"),),
)
BARE = Calibration(
    mechanism=GAUSSIAN,
    accountant=Accountant.EXACT,
    noise_multiplier=1.2181234,
    effective_noise_multiplier=1.2181234,
    sigma=1.2181234,
    guarantee=Guarantee(5.0, 1e-8, None, Bound.EXACT, None, ASSUMPTIONS[:3], proof=Proof.EXACT),
    statement="The Gaussian mechanism is private.",
    mean_noise_std=None,
    mse=None,
    bits_per_client=None,
)

#: With client sampling, and the inputs that go with it.
SAMPLING = {"rounds": 2000, "sampling_rate": 0.001}
SAMPLED = replace(
    CALIBRATION,
    mechanism=replace(L2_CSGM, **SAMPLING),
    guarantee=replace(
        GUARANTEE,
        assumptions=(*ASSUMPTIONS, "participation-poisson", "participation-secret", "fixed-denominator"),
    ),
)

FACTORS = FactorNorms(32, "prefix-sum", "optimal", 1.0000000001)
#: With a factorization: what a row is measured by.
FACTORIZED = replace(
    CALIBRATION,
    mechanism=replace(L2_CSGM, factorization=FACTORS, epochs=16),
    guarantee=replace(
        GUARANTEE,
        assumptions=("clipping-enforced", "one-participation-per-epoch", *ASSUMPTIONS[2:]),
        lower_bound=None,
    ),
    mean_noise_std=None,
    noise_std_per_row=NoisePerRow(min=0.1000000001, mean=0.2000000001, max=0.3000000001),
    mse_last_row=MeanSquaredError(
        privacy=2.000000001,
        sparsification=0.1000000001,
        total=2.100000001,
        gaussian_total=2.0,
        ratio=1.0500000001,
    ),
)
#: The inputs that go with it.
STREAM = {
    "rounds": None,
    "sampling_rate": 1.0,
    "factorization": "prefix32.npz",
    "epochs": 16,
    "participations": None,
    "min_separation": None,
    "T": 32,
    "workload": "prefix-sum",
    "strategy": "optimal",
    "sensitivity": 1.0000000001,
    "factorization_sha256": "0" * 64,
}

#: A client takes part several times without a restart, and columns of C overlap.
REPEATED = RepeatedParticipation(
    4, 8, joint_sensitivity=2.1000000001, release_sensitivity=1.1000000001, is_exact=True
)
COMES_BACK = replace(
    FACTORIZED,
    mechanism=replace(L2_CSGM, factorization=replace(FACTORS, repeated=REPEATED)),
    guarantee=replace(
        FACTORIZED.guarantee,
        assumptions=("clipping-enforced", "bounded-participations", "min-separation", *ASSUMPTIONS[2:]),
    ),
)
RUN = {**STREAM, "rounds": 4, "epochs": 1, **REPEATED.named}

SETTING = {
    "l2_norm": 1.0,
    "rounds": 1,
    "sampling_rate": 1.0,
    "adjacency": "add-remove",
    "accountant": "auto",
}
SIZES = {
    "norm_ratio": 1000.0,
    "linf_norm": 0.001,
    "dim": 1_000_000,
    "cohort_size": 1000,
    **SETTING,
    "value_bits": 32,
}
NOISE = {
    "mechanism": "l2-csgm",
    "noise_multiplier": 0.0122,
    "effective_noise_multiplier": 0.03660000001,
    "sigma": 0.01220000001,
    "gamma": 1 / 3,
    "norm_ratio": 1000 / 7,
    "linf_norm": 7 / 1000,
    **SETTING,
}
TARGET = {"epsilon": 5.0, "delta": 1e-8}


def _account(noise_inputs, *guarantees):
    statements = tuple(f"Statement {number}." for number, _ in enumerate(guarantees, start=1))
    account = Account(L2_CSGM, Accountant.RDP, 0.0122, guarantees, statements)
    return document.account_document({**NOISE, **noise_inputs}, account)


def _calibrations():
    inputs = {"mechanism": "l2-csgm", **TARGET, "gamma": 0.01, **SIZES}
    yield "calibrate", document.calibration_document(inputs, CALIBRATION)
    inputs = {"mechanism": "gaussian", **TARGET, "gamma": 1.0, "norm_ratio": None, **SETTING}
    yield "calibrate-bare", document.calibration_document(inputs, BARE)
    inputs = {"mechanism": "l2-csgm", **TARGET, "gamma": 0.01, **SIZES, **STREAM}
    yield "calibrate-factorized", document.calibration_document(inputs, FACTORIZED)
    inputs = {"mechanism": "l2-csgm", **TARGET, "gamma": 0.01, **SIZES, **RUN}
    yield "calibrate-repeated", document.calibration_document(inputs, COMES_BACK)
    inputs = {"mechanism": "gaussian", **TARGET, "gamma": 1.0, "norm_ratio": None, **SETTING, **RUN}
    yield "calibrate-repeated-bare", document.calibration_document(inputs, BARE)
    inputs = {"mechanism": "l2-csgm", **TARGET, "gamma": 0.01, **SIZES, **SAMPLING}
    yield "calibrate-sampled", document.calibration_document(inputs, SAMPLED)


def _accounts():
    spent = replace(GUARANTEE, delta=1.2345678e-8, lower_bound=4.3210987, notices=())
    yield "account", _account({"delta": 1.2345678e-8}, spent)
    matched = replace(
        spent, lower_bound=1e-9, bound=Bound.TIGHT_ADD, proof=Proof.GAUSSIAN_MATCHED, conversion=None
    )
    yield "account-delta", _account({"epsilon": 4.99999999999}, matched)
    yield "account-limit", _account({"delta": 1e-8, "max_epsilon": 4.9999}, replace(spent, delta=1e-8))
    # The second row rests on another bound, which has no order.
    other = replace(
        spent,
        epsilon=3.25,
        delta=1e-6,
        bound=Bound.MASK_REVEALED,
        proof=Proof.MASK_REVEALED,
        order=None,
        conversion=None,
        verified=None,
    )
    curve = {"delta": [1.2345678e-8, 1e-6], "max_epsilon": 5.0}
    yield "account-curve", _account(curve, spent, other)


def _comparisons():
    rows = (
        ComparisonRow(GAUSSIAN, BARE),
        ComparisonRow(L2_CSGM, CALIBRATION),
        ComparisonRow(Mechanism("linf-csgm", 1e-9, GEOMETRY), None),
    )
    why = (Notice("no-answer", "linf-csgm with gamma 1e-09 has no answer"),)
    for name, equal in (("compare", False), ("compare-equal-mse", True)):
        inputs = {**TARGET, "gamma": [0.01, 1e-9], "at_equal_mse": equal, **SIZES}
        comparison = Comparison(Target(**TARGET), Accountant.RDP, equal, rows, why)
        yield name, document.comparison_document(inputs, comparison)
    rows = (ComparisonRow(FACTORIZED.mechanism, FACTORIZED), ComparisonRow(FACTORIZED.mechanism, None))
    inputs = {**TARGET, "gamma": 0.01, "at_equal_mse": False, **SIZES, **STREAM}
    comparison = Comparison(Target(**TARGET), Accountant.RDP, at_equal_mse=False, rows=rows, notices=why)
    yield "compare-factorized", document.comparison_document(inputs, comparison)
    yield "compare-privunit", _with_privunit()


def _with_privunit():
    rows = (ComparisonRow(GAUSSIAN, BARE), ComparisonRow(L2_CSGM, CALIBRATION))
    bounds = (("privunit-blanket", "privacy-blanket"), ("shuffle-clones", "shuffle-clones-numerical"))
    shuffled = [_privunit(1, 3.25, *words) for words in bounds]
    shuffled.append(_privunit(64, 0.75, "privunit-blanket", "privacy-blanket-numerical"))
    inputs = {**TARGET, "gamma": [0.01], "at_equal_mse": False, "with": "privunit-shuffle", **SIZES}
    inputs["adjacency"] = "replace-one"
    target = Target(**TARGET)
    comparison = Comparison(target, Accountant.TIGHT, False, rows, privunit_rows=tuple(shuffled))
    return document.comparison_document(inputs, comparison)


def _privunit(messages, local, bound, proof):
    """A row of privunit-shuffle at twice the Gaussian mechanism's error."""
    return PrivUnitRow(
        messages=messages,
        local_epsilon=local,
        threshold=0.5,
        cap_mass=0.3085375387259869,
        epsilon=TARGET["epsilon"],
        delta=TARGET["delta"],
        bound=bound,
        proof=proof,
        assumptions=("trusted-shuffler", "prg-computational", "no-trusted-server"),
        statement="PrivUnitG satisfies differential privacy.",
        mse=MeanSquaredError(4.0, 0.0, 4.0, 2.0, 2.0),
        sphere_total=3.75,
        bits_per_client=128 * messages,
    )


def _plans():
    plan = Plan(gamma=0.0123456001, compression=81.00051, calibration=CALIBRATION)
    inputs = {"mechanism": "l2-csgm", **TARGET, "max_mse_overhead": 0.05, "max_noise_overhead": None, **SIZES}
    yield "plan", document.plan_document(inputs, plan)


def _sweeps():
    asked = {"mechanism": "l2-csgm", "gamma": 0.01, "norm_ratio": 1000.0, "target_epsilon": 5.0}
    rotated = Notice("rotation-rule", "norm_ratio from the rotation rule")
    covered = Notice("delta-covers-target", "delta 0.5 already covers the target")
    rows = (
        document.sweep_row({**asked, "accountant": "auto"}, CALIBRATION, (rotated, *CALIBRATION.notices)),
        document.sweep_row({**asked, "target_epsilon": 6.0, "accountant": "auto"}, None, (), covered),
    )
    common = {
        **SIZES,
        "compression": None,
        "linf_norm": None,
        "population_size": None,
        "population": None,
        "training_rounds": None,
    }
    common |= {"factorization": None, "epochs": None}
    common |= {
        "mechanism": "l2-csgm",
        "gamma": 0.01,
        "verify": False,
        "noise_multiplier": None,
        "sigma": None,
    }
    vary = {"vary": ["norm_ratio", "epsilon"], "norm_ratio": [1000.0], "epsilon": [5.0, 6.0], "preset": None}
    yield "sweep", document.sweep_document({**common, "delta": 1e-8, **vary}, rows, [rotated])
    row = document.sweep_row(
        {"mechanism": "gaussian", "gamma": 1.0, "sigma": 1.2181234, "delta": 1e-8, "accountant": "exact"},
        BARE,
        (),
    )
    vary = {"vary": ["sigma", "delta"], "sigma": [1.2181234], "delta": [1e-8], "preset": None}
    inputs = {**common, "mechanism": "gaussian", "gamma": 1.0, "norm_ratio": None, "epsilon": None, **vary}
    yield "sweep-account", document.sweep_document(inputs, [row], ())


MODEL = Release("model", L2_CSGM, 0.0123456001, owner="team | a", place=Place("b.toml", 5))
COUNTS = Release("counts", GAUSSIAN, 12.5, reason="why\nnot", place=Place("b.toml", 9))
PLANNED = replace(MODEL, name="planned", enabled=False)


def standing(spent, limit, *releases):
    """A population with that much spent of its limit."""
    population = Population(
        "people", Target(limit, 1e-6), releases=tuple(r.release for r in releases), place=Place("b.toml", 2)
    )
    return Standing(population, replace(GUARANTEE, epsilon=spent, lower_bound=None, notices=()), releases)


def _checks():
    within = standing(
        2.9999999,
        3.0,
        ReleaseStanding(MODEL, 0.99999, 12345678, None),
        ReleaseStanding(COUNTS, 0.00001, 0, None),
        ReleaseStanding(PLANNED, None, None, None),
    )
    above = standing(3.0000001, 3.0, ReleaseStanding(MODEL, 1.0, 0, 0.0123456789))
    empty = Standing(Population("nobody", Target(1.0, 1e-9)), None, ())
    moved = PopulationChange(
        within.population,
        above,
        2.9876543001,
        2.9999999,
        (
            ReleaseChange(MODEL, replace(MODEL, sigma=0.0123), 1.23456701),
            ReleaseChange(COUNTS, None, -1.23456789),
            ReleaseChange(PLANNED, replace(PLANNED, name="later"), 0.0),
        ),
    )
    inputs = {"files": ["b.toml"], "diff": None, "against_lock": "b.lock", "accountant": Accountant.AUTO}
    inputs |= {"verify": True, "exit_zero": False}
    changes = Changes("b.lock", "0.0.9", None, (moved,))
    said = (Notice("ratio-capped", "the ratio was capped"),)
    yield "check", check_document.check_document(inputs, (within, above, empty), changes, said)


def _factorizations():
    optimal = Factorization(
        Workload(32), Strategy("optimal"), Objective.MEAN, 0.99999999, 3.57999071, 4.32369721, 3.57999070, 17
    )
    asked = {"T": 32, "workload": "prefix-sum", "objective": "mean", "epochs": 1, "tolerance": 1e-9}
    asked |= dict.fromkeys(("participations", "min_separation", "bands"))
    written = {"arrays": ["B", "v"], "dtype": "float64"}
    nothing = {"arrays": None, "dtype": None}
    yield "factorize", document.factorization_document({**asked, "strategy": "optimal", **written}, optimal)
    momentum = {**asked, "workload": "momentum=0.9", "objective": "max", "strategy": "streaming:3"}
    streaming = Factorization(
        Workload(32, 0.9), Strategy("streaming", 3), Objective.MAX, 1.0, 3.58103201, 4.0, 3.99999999
    )
    yield "factorize-max", document.factorization_document({**momentum, **nothing}, streaming)
    padded = (Notice("tree-padded", "the tree has 32 leaves: 20 steps and 12 that never happen"),)
    tree = Factorization(
        Workload(32), Strategy("tree"), Objective.MEAN, 6.0, 15.18750001, 24.0, 3.5799907, notices=padded
    )
    left = (Notice("strategy-left-out", "output is left out: it is too large"),)
    yield (
        "factorize-compare",
        document.strategies_document({**asked, "strategy": None, **nothing}, [optimal, tree], left),
    )


def _inspections():
    hashes = ("d334b901f37117629b98ee48760abeea", "e334b901f37117629b98ee48760abeea")
    claims = (
        Claim("T", 32, 32, True),
        Claim("sensitivity", 1.0, 1.00000006, False),
        Claim("causal", True, True, True),
        Claim("sha256", *hashes, False),
    )
    numbers = (1.00000012, 3.57999072, 4.32369721, 3.57999071, 17)
    found = Inspection(Workload(32), Strategy("optimal"), Objective.MEAN, *numbers, claims)
    inputs = {"file": "a.npz", "workload": "prefix-sum", "objective": "mean"}
    yield "inspect", document.inspection_document(inputs, found)
    bare = Inspection(Workload(32), None, Objective.MAX, *numbers, claims[2:3])
    yield "inspect-bare", document.inspection_document({**inputs, "file": "C.npy", "objective": "max"}, bare)


def _simulations():
    predictions = (
        Prediction("mse", 3.8380599, 3.8462101, 3.7615501, 3.9308699),
        Prediction("relative_bias", 0.0, -0.0115601, -0.0550501, 0.0319201),
        Prediction("squared_bias", 0.0, 0.0545001, 0.0021001, 0.1069001),
    )
    asked = {"what": "mean", "from": "result.json", "rotation": "hadamard", "wire": "float32"}
    asked |= {"vectors": None, "trials": 200, "seed": 7}
    run = {"mechanism": "l2-csgm", "gamma": 0.1, "norm_ratio": 3.875, "l2_norm": 1.0, "dim": 256}
    run |= {"cohort_size": 20, "sampling_rate": 1.0, "sigma": 0.2300835, "T": None, "strategy": None}
    said = (Notice("not-private", "NOT PRIVATE: all randomness comes from a seed"),)
    found = MeanSimulation(200, 0.999, predictions, 3.83805994, 4.3301e-8)
    yield "simulate", document.simulation_document({**asked, **run}, found, said)
    found = MeanSimulation(200, 0.999, predictions, None, 0.0)
    stream = {**asked, **run, "T": 4, "strategy": "optimal"}
    yield "simulate-factorized", document.simulation_document(stream, found, said)


def _trainings():
    asked = {"data": None, "partition": "dirichlet:1", "model": "mlp:64", "local_steps": 1}
    asked |= {"learning_rate": 0.5, "momentum": 0.9, "rotation": "hadamard", "wire": "float16", "seed": 7}
    asked |= {"epsilon": 5.0, "delta": 1e-8, "adjacency": "add-remove", "population_size": 600}
    asked |= {"training_rounds": 25, "factorization": None, "mechanism": "l2-csgm", "gamma": 0.01}
    asked |= {"norm_ratio": 1000.0, "l2_norm": 1.0, "dim": 8192, "cohort_size": 200, "sampling_rate": 1.0}
    asked |= {"T": None, "strategy": None, "rounds": 9, "epochs": None}
    rounds = tuple(TrainingRound(i + 1, i / 32, 329_000 + i, 1 + i // 3) for i in range(25))
    run = TrainingRun(
        CALIBRATION, TrainingCost(1.1030001, 180.001, 19240, 0.7255001), rounds, 25, "synthetic", "0" * 64,
        20, 4810, False, {"python": "3.11.7", "numpy": "2.4.0"},
    )  # fmt: skip
    said = (Notice("not-private", "NOT PRIVATE: all randomness comes from a seed"),)
    yield "train", document.training_document(asked, run, said)
    stream = {**asked, "training_rounds": None, "data": "set", "sampling_rate": 0.01, "rounds": 25}
    begun = replace(run, rounds=rounds[:2], dataset="set", bytes_are_expected=True)
    yield "train-interrupted", document.training_document(stream, begun, said)


def _others():
    cases = (
        SelftestCase("log_moment order 2", 0.5, 0.5, 0.0, 1e-10),
        SelftestCase("rdp k=100, T=1", 0.25, 0.2500001, 4.000001e-7, 1e-8),
        SelftestCase("broken", 1.0, math.nan, math.nan, 1e-8),
    )
    yield "selftest", document.selftest_document(cases)
    yield "version", document.version_document({"python": "3.11.7", "numpy": "2.4.6", "rich": None})
    error = NoAnswerError(
        "delta-covers-target", "delta 0.5 already covers the target", "ask for a smaller delta"
    )
    yield "error", document.error_document(error)


@pytest.fixture
def documents(monkeypatch):
    """One document or more of every kind, by name; the version is fixed so that golden files last."""
    for module in (document, version):
        monkeypatch.setattr(module, "__version__", "0.0.0")
        monkeypatch.setattr(module, "NUMBERS_VERSION", 1)
    return {
        name: made
        for group in (
            _calibrations,
            _accounts,
            _comparisons,
            _plans,
            _sweeps,
            _checks,
            _factorizations,
            _inspections,
            _simulations,
            _trainings,
            _others,
        )
        for name, made in group()
    }
