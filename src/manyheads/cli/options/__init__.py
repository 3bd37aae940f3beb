"""Options that several commands share, a module for each group."""
