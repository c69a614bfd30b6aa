"""The panels, a folder each. None sees another, and none knows the app."""
