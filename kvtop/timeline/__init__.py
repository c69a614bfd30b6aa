"""State folded from events, and what is made of it: snapshots, recordings, seeking."""
