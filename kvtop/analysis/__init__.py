"""What can be worked out from a snapshot: pure functions over lengths, tables and chains."""
