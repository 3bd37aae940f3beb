"""The reference engine: the paper's training in plain PyTorch, for tests of the native engine and for a GPU."""
