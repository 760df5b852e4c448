"""Wire formats: JSON and protobuf requests parsed into values, results encoded. Independent of routes and models."""
