"""The frozen dataclasses that all other packages take and return (standard library only)."""
