"""Bench: the native engine's training step beside PyTorch's and JAX's. Run: python -m benchmarks.bench"""
