"""Problem: a graph over an embedding. An attention layer has to hold its relations."""
