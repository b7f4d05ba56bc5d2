"""The demonstration: emoji that the model never saw, recognized by their names."""
