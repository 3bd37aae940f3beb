"""The reference engine: the paper's training in plain PyTorch, the oracle of the native engine, and for a GPU."""
