"""The paper: synthesis, competition, bidirectional projection, and its two estimators."""
