"""An engine on several machines: scheduling of work and combination of results, independent of Ray."""
