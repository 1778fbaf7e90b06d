"""What the user states: features φ and ψ, backgrounds b, features that follow the context."""
