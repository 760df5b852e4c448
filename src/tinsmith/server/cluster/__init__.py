"""Workers of a server on Ray: the server's side, which starts and watches them, and the workers' own."""
