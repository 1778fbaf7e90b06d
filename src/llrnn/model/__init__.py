"""The model ψ → controller → layer: scored, decoded, edited, saved."""
