"""Labels of single papers: the ladder, its remedies and controls, supervised fine-tuning."""
