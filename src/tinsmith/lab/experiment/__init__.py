"""From an experiment's name to its run folder: keys, plan, materials, manifest, conduct, replay."""
