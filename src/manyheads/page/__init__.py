"""The page: one HTML file with the C++ engine in it, for a browser."""
