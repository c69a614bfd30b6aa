"""The parts of the dashboard, one a file."""
