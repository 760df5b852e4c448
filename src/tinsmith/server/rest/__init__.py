"""Listings for REST clients; endpoints that are refused."""
