"""What training changed of a model, token by token, and whether what it changed explains what it gained."""
