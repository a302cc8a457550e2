"""Random command lines, well-formed and hostile."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, replace
from random import Random

import click

from csgm_cli.cli.options.parameter_types import Choice, Number
from csgm_cli.cli.options.sources import flag_of
from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.ranges import RANGES, Range

_HOSTILE = (
    "", " ", "nan", "NaN", "inf", "-inf", "1e999", "-1e999", "1e-999", "0", "-0.0", "-1", "1.5", "2", "1e5",
    "1e30", "0x10", "1_0", "1__000", "1_000", "3,5", "1e", ".", "-", "--", "true", "None", "\u0661", "\u00bd",
    "5 ", "\t5", "a\nb", "\x1b[31m5", "\x00", "\u202e5", "\udcff", "9" * 400, "0." + "0" * 400 + "1", "-x",
    "--format", "json", "l2", "exact", "paper", "tight", "replace", "0.0064", "1e-301", "0.9999999999999999",
    "%s", "{}", "$(x)", "-1e-400", "4M", "1%",
)  # fmt: skip
#: Nothing that is written to lies outside the empty folder that the examples run in.
_PATHS = ("", ".", "missing/result.json", "missing.json", "\x00", "written.json", "new/", "x" * 5000)

# --------------------------------------------------------------------------- command lines


@dataclass(frozen=True)
class Line:
    """A command and its options; each option is a flag, alone or with its value."""

    command: str
    options: tuple[tuple[str, ...], ...] = ()

    @property
    def words(self) -> list[str]:
        """The arguments as ``main`` takes them."""
        return [self.command, *(word for option in self.options for word in option)]

    def __str__(self) -> str:
        return shlex.join(["csgm", *self.words])

    def last(self, flag: str) -> str | None:
        """The word after the last ``flag``, wherever it stands; None without it."""
        at = max((i for i, word in enumerate(self.words) if word == flag), default=None)
        return None if at is None else next(iter(self.words[at + 1 :]), None)

    def has(self, *flags: str) -> bool:
        """Whether one of ``flags`` stands anywhere."""
        return any(flag in self.words for flag in flags)

    def changed(self, **values: float | str) -> Line:
        """The line with each option in ``values`` set to its value."""
        flags = {flag_of(name): _written(value) for name, value in values.items()}
        return replace(self, options=(*self.without(*flags).options, *flags.items()))

    def without(self, *flags: str) -> Line:
        """The line with every option called one of ``flags`` dropped."""
        return replace(self, options=tuple(option for option in self.options if option[0] not in flags))


@dataclass(frozen=True)
class Example:
    """A command line, whether it is well-formed, and how to perturb its question."""

    line: Line
    well_formed: bool
    knob: str
    factor: float


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else repr(value)


# --------------------------------------------------------------------------- generation

Options = list[tuple[str, float | str]]

_USUAL = {
    "epsilon": (0.1, 20.0),
    "delta": (1e-12, 1e-2),
    "gamma": (1e-3, 1.0),
    "compression": (1.0, 1e3),
    "norm_ratio": (1.0, 1e3),
    "l2_norm": (0.1, 10.0),
    "rounds": (1, 1e4),
    "dim": (1e3, 1e9),
    "cohort_size": (10, 1e4),
    "population_size": (1e3, 1e7),
    "training_rounds": (1, 1e4),
    "sampling_rate": (1e-4, 0.5),
    "epochs": (1, 1e4),
    "max_epsilon": (0.1, 100.0),
}
_FACTORIZATIONS = ("optimal:8", "streaming:2:9", "tree:6", "identity:3", "output:4", "toeplitz-sqrt:5")
#: Noise multipliers a little inside their range, which multiplying by a norm and dividing must not leave.
_NOISE = Range(1e-14, 1e17)


def example(random: Random) -> Example:
    """A command line, well-formed as often as hostile."""
    well_formed = random.random() < 0.5
    line = _well_formed(random)
    if not well_formed:
        line = _spoiled(line, random)
    knob = random.choice(["epsilon", "delta", "gamma", "norm_ratio", "rounds", "sampling_rate"])
    factor = random.choice([1 + 1e-9, 1.001, 1.1, 2.0, 1e3])
    return Example(_with_population(line, well_formed=well_formed), well_formed, knob, factor)


def _number(random: Random, name: str, allowed: Range | None = None) -> float:
    """A usual value, a value from anywhere in the range, or one of its ends."""
    allowed = allowed or RANGES[name]
    low, high = _USUAL.get(name, (1e-3, 1e3))
    low, high = max(low, allowed.low), min(high, allowed.high)
    top = math.nextafter(allowed.high, 0.0) if allowed.open_high else allowed.high
    bottom = allowed.low or low / 1e3
    spread = random.choice([(low, high), (low, high), (bottom, top), (allowed.low,) * 2, (top,) * 2])
    if spread[0] == spread[1]:
        return int(spread[0]) if allowed.integer else spread[0]
    number = 10.0 ** random.uniform(math.log10(spread[0]), math.log10(spread[1]))
    number = min(max(number, spread[0]), spread[1])
    return int(number) if allowed.integer else number


def _well_formed(random: Random) -> Line:
    """A question of one of the four commands that answer some: only its target may be out of reach."""
    command = random.choice(["calibrate", "calibrate", "calibrate", "account", "compare", "plan"])
    mechanism = _mechanism(random, command)
    options = _asked(random, command, dict(mechanism)) + mechanism
    if command != "account" and random.random() < 0.3:
        options.append(("value_bits", random.randint(1, 64)))
    several = sum(name == "delta" for name, _ in options) > 1
    if command != "compare" and not several and random.random() < 0.2:
        options.append(("value", ""))
    else:
        options.append(("format", random.choice(["json", "text", "csv", "markdown"])))
    if random.random() < 0.05:
        options.append(("verify", ""))
    random.shuffle(options)
    flagged = [(flag_of(name), _written(value)) for name, value in options]
    return Line(command, tuple((flag, value) if value else (flag,) for flag, value in flagged))


def _asked(random: Random, command: str, mechanism: dict[str, float | str]) -> Options:
    """The target; or the noise and what is asked about it."""
    if command != "account":
        return [(name, _number(random, name)) for name in ("epsilon", "delta")]
    noise = _number(random, "noise_multiplier", _NOISE)
    sigma = noise * float(mechanism.get("l2_norm", 1.0))
    options: Options = [random.choice([("noise_multiplier", noise), ("sigma", sigma)])]
    if random.random() < 0.5:
        return [*options, ("epsilon", _number(random, "epsilon"))]
    options += [("delta", _number(random, "delta")) for _ in range(random.randint(1, 2))]
    return options + [("max_epsilon", _number(random, "max_epsilon"))] * random.randint(0, 1)


def _mechanism(random: Random, command: str) -> Options:
    """The mechanism, the accountant and all that the cost depends on."""
    gaussian = ["gaussian"] * (command in ("calibrate", "account"))
    name = "" if command == "compare" else random.choice(["l2-csgm", "l2-csgm", "linf-csgm", *gaussian])
    overhead = random.choice(["max_mse_overhead", "max_noise_overhead"])
    equal_mse = command == "compare" and random.random() < 0.3
    needs_both = equal_mse or (command == "plan" and overhead == "max_mse_overhead")
    sampled = random.random() < 0.1
    unsampled = ["paper"] + ["exact"] * (name == "gaussian")
    accountants = ["auto", "auto", "rdp", "tight", *([] if sampled else unsampled)]
    options: Options = [("accountant", random.choice(accountants))]
    options.append(("adjacency", random.choice(["add-remove", "add-remove", "replace-one"])))
    options += [("mechanism", name)] * bool(name) + [("at_equal_mse", "")] * equal_mse
    geometry = _geometry(random, needs_dim=needs_both or name == "linf-csgm", needs_cohort=needs_both)
    if command == "plan":
        options.append((overhead, _number(random, overhead)))
    elif name == "gaussian":
        geometry = {key: value for key, value in geometry.items() if key not in ("norm_ratio", "linf_norm")}
    else:
        rate, count = random.choice(["gamma", "compression"]), random.randint(1, 3)
        options += [(rate, _number(random, rate)) for _ in range(count if command == "compare" else 1)]
    rounds = _sampled_rounds(random) if sampled else _rounds(random, geometry.get("cohort_size"))
    return [*options, *geometry.items(), *rounds.items()]


def _geometry(random: Random, *, needs_dim: bool, needs_cohort: bool) -> dict[str, float]:
    """Options for the clip norms, the dimension and the cohort."""
    values = {"l2_norm": _number(random, "l2_norm")} if random.random() < 0.5 else {}
    source = random.choice(["norm_ratio", "norm_ratio", "linf_norm", "rotation"])
    if needs_dim or source == "rotation" or random.random() < 0.5:
        values["dim"] = _number(random, "dim")
    if needs_cohort or source == "rotation" or random.random() < 0.5:
        values["cohort_size"] = _number(random, "cohort_size")
    if source == "norm_ratio":
        values["norm_ratio"] = _number(random, "norm_ratio")
    elif source == "linf_norm":  # a little inside the range, which dividing must not leave
        values["linf_norm"] = values.get("l2_norm", 1.0) / min(_number(random, "norm_ratio"), 0.999e6)
    return values


def _rounds(random: Random, cohort_size: float | None) -> dict[str, float | str]:
    """Options for the number of rounds, or of the epochs of a factorization."""
    if random.random() < 0.2:
        epochs = {"epochs": _number(random, "epochs")} if random.random() < 0.7 else {}
        return {"factorization": random.choice(_FACTORIZATIONS), **epochs}
    if cohort_size is None or random.random() < 0.5:
        return {"rounds": _number(random, "rounds")} if random.random() < 0.7 else {}
    population = max(_number(random, "population_size"), cohort_size)
    most = max(1, min(10**12, int(0.999e9 * population / cohort_size)))
    return {"population_size": population, "training_rounds": min(_number(random, "training_rounds"), most)}


def _sampled_rounds(random: Random) -> dict[str, float]:
    """Options for rounds in each of which a client takes part at random."""
    return {name: _number(random, name) for name in ("sampling_rate", "rounds")}


def _with_population(line: Line, *, well_formed: bool) -> Line:
    """How many clients there are, on half of the lines with factorization and cohort: enough if well-formed.

    By draws of its own and after all others, so that those stay as they are.
    """
    factorization, cohort_size = line.last("--factorization"), line.last("--cohort-size")
    random = Random(ascii(str(line)))
    if factorization is None or cohort_size is None or random.random() < 0.5:
        return line
    population, most = _number(random, "population_size"), int(RANGES["population_size"].high)
    if well_formed:
        least = int(factorization.rpartition(":")[2]) * int(cohort_size)
        if least > most:
            return line
        population = min(least * 10 ** random.choice([0, 0, 1, 3, 6]), most)
    return line.changed(population_size=population)


def _spoiled(line: Line, random: Random) -> Line:
    """A well-formed line to which one to three things were done."""
    options = list(line.options)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(options) + 1)
        match random.choice(["insert", "replace", "drop", "spoil"]):
            case "insert":
                options.insert(at, _any_option(random))
            case "replace":
                options[at : at + 1] = [_any_option(random)]
            case "drop":
                del options[at : at + 1]
            case _ if at < len(options):
                options[at] = (options[at][0], _any_text(random))
    strange = [name for name in REGISTRY if name != "selftest"] + ["", "calibrat", "--gamma", "\udcff"]
    command = random.choice(strange) if random.random() < 0.1 else line.command
    return Line(command, tuple(options))


def _any_option(random: Random) -> tuple[str, ...]:
    """Some command's option, with a value that may or may not suit it; or no option at all."""
    name = random.choice(list(REGISTRY))
    command = root.get_command(click.Context(root), name)
    assert command is not None  # every name of the registry has one
    parameter = random.choice(command.params)
    if not isinstance(parameter, click.Option) or random.random() < 0.1:
        words = [_any_text(random), "bash", "--epsilom", "--no-verify", "-e", "calibrate", "--"]
        return (random.choice(words),)
    flag, kind = parameter.opts[0], parameter.type
    if parameter.is_flag:
        return (flag,)
    if parameter.name in ("output", "from", "config", "plot"):
        return flag, random.choice(_PATHS)
    if isinstance(kind, Number) and random.random() < 0.5:
        return flag, repr(_number(random, kind.quantity, kind.allowed))
    if isinstance(kind, Choice) and random.random() < 0.5:
        return flag, random.choice(kind.choices)
    return flag, _any_text(random)


def _any_text(random: Random) -> str:
    if random.random() < 0.8:
        return random.choice(_HOSTILE)
    return "".join(chr(random.randint(0, 0x2FF)) for _ in range(random.randint(0, 8)))
