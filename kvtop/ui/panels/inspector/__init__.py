"""The inspector's pages: pure functions from a view to lines, a page for each thing that can be selected."""
