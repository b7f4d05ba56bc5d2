"""The demonstrations on the embedded emoji: of features, and of pictures."""
