"""What runs on labels came to: arms, claims, tables, figures."""
