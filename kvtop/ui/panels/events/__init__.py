"""Events: the log, and the list of all that are kept."""
