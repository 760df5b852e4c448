"""Wire formats: JSON and protobuf requests read into our own values, results written. No route, no model."""
