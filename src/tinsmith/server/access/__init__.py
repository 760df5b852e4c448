"""Access to the server: keys, owners, limits, and the guard before every route."""
