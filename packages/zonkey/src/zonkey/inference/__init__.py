"""What fitted models answer: scores, explanations, indexes, ONNX graphs."""
