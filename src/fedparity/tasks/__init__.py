"""What a client does with a model."""
