"""A Flower app that trains with the mechanism of calibration.json."""
