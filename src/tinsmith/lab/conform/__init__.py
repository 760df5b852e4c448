"""What a Tinker server honours of the protocol, asked of any server by the official client alone."""
