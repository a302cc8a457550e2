"""Local randomizers with a shuffler: the error of PrivUnit, and the guarantee of its shuffled reports."""
