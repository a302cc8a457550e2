"""The frozen values that everything else takes and returns (standard library only)."""
