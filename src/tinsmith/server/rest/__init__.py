"""REST endpoints: listings, and unsupported endpoints."""
