"""The certificate of the rule softmax: bounds on every pair's score over all contexts of given lengths."""
