"""The tree of cached prefixes."""
