"""What the newest step's attention read."""
