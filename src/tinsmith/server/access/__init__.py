"""Who may ask for what: keys, whose a thing is, limits, the guard before every route."""
