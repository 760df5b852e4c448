"""F4: what the answers say: metrics, intervals, tests, collapse, incentives, consistency, parity."""
