"""The mathematics of the paper, in its symbols: moments, projection, synthesis, Algorithm 1."""
