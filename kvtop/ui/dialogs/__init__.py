"""What opens over the dashboard: help, setup, questions, lines of input, lists to choose from."""
