"""Arena rows, block tables and row moves."""
