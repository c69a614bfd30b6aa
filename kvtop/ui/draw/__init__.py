"""Colours, characters, text, lines, pictures: drawing that knows no panel."""
