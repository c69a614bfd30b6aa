"""The block map without its widget: geometry, look-up tables, codes, flashes, and words. Pure functions and
NumPy; `kvtop.ui.widgets.block_map` puts them on the screen."""
