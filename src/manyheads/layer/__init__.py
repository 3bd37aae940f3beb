"""Layer: the weights of one attention layer and the rule that joins its heads."""
