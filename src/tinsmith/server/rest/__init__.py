"""What is there, told to REST clients; endpoints that are refused."""
