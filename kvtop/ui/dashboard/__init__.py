"""The one screen below all dialogs: where panels stand, the header, the meters, the key bar."""
