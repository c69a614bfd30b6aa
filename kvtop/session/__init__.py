"""What the screens talk to: one protocol over a live engine, a recording or another engine."""
