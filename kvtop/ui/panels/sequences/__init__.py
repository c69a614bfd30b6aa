"""The sequences, a row each."""
