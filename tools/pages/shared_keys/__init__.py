"""The page on shared keys: the smallest certified layers of every way to share keys among heads."""
