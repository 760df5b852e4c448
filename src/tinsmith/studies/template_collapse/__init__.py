"""A run whose answers stop depending on what was asked, by design; and what a filter of groups does about it."""
