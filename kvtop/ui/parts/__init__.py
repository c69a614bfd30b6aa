"""What panels and dialogs are made of."""
