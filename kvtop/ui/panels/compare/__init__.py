"""The same requests under paging and under contiguous reservation."""
