"""What the project measures past the paper, a module each."""
