"""F5: one run and one study, whatever the subject."""
