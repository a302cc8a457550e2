"""The version of csgm: a module of its own, so that those that print it need not import the whole API."""

__version__ = "0.1.0"
