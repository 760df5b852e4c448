"""Results of runs on labels: arms, claims, tables, figures."""
