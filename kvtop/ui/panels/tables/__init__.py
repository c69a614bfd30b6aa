"""The block tables: logical blocks across, physical ids in the cells."""
