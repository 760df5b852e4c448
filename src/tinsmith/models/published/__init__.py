"""Published models: the hub, the package index, and where what was fetched lies."""
