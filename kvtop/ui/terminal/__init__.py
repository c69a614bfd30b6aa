"""The terminal itself: leaving it as it was found, pastes, rows straight to it."""
