"""Command lines that several test modules ask, and the settings beside them."""

from pathlib import Path

CALIBRATE = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000"
ACCOUNT = "account --noise-multiplier 0.0122 --gamma 0.01 --norm-ratio 1000"
GRID = "sweep --epsilon 5 --delta 1e-8 --vary gamma=0.01:0.5:3log --vary norm-ratio=10,1000 --accountant rdp"
SOME_FAIL = (
    "sweep --epsilon 5 --vary delta=1e-8,0.9,0.1 --gamma 1e-9 --dim 100 --norm-ratio 2 --accountant rdp"
)

SIZES = "--dim 1e5 --cohort-size 200 --norm-ratio 30 --accountant rdp"
CALIBRATE_SIZED = f"calibrate --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES}"


def configure(text: str, name: str = "csgm.toml") -> None:
    """Write the config file of the current folder."""
    Path(name).write_text(text, encoding="utf-8")
