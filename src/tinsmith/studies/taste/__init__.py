"""Which of two papers is cited more: pairs from a corpus's own citations, as a task, and what one must beat on them."""
