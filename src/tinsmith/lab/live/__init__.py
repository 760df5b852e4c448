"""What is watched while a run goes on, and what a person is told of it meanwhile."""
