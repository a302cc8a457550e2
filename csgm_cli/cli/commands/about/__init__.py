"""Commands about csgm itself: help, completion, version."""
