"""What keys do: actions, key map, intents, help. One table, no widget."""
