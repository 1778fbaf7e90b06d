"""The equation log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K), on tensors alone."""
