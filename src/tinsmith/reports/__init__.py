"""What a run left behind, as pages to read: tables, figures, the run map and the claims that hold."""
