"""Problem: a graph over an embedding, what an attention layer has to hold."""
