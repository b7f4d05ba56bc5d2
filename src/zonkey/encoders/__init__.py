"""Pictures and texts to vectors: encoders with the interface of scikit-learn's transformers."""
