"""The page of a run and of a comparison, whatever the subject."""
