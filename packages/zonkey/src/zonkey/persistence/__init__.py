"""Model files: objects as JSON and arrays in one safetensors file."""
