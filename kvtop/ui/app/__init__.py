"""The app: polls a source, draws what changed, performs what the floors below ask for."""
