"""The block map without its widget: geometry, look-up tables, codes, flashes, and words. Pure functions and
NumPy; `kvtop.ui.panels.map.panel` puts them on the screen."""
