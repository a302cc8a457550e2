"""Local randomizers behind a shuffler: PrivUnit, its error and what shuffling its reports guarantees."""
