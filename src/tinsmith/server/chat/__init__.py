"""A chat as the server knows it, whichever protocol it came in: asked, prepared, sampled, read as text and calls."""
