"""The demonstration on embedded data: from features and from pictures."""
