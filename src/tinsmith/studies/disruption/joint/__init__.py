"""Both labels of a paper in one answer."""
