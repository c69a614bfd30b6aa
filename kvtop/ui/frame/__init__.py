"""What a frame shows, as plain data: the view, rows, columns, words. No widget."""
