"""Published models: the hub, the package index, and the location of fetched files."""
