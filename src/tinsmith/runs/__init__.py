"""What a run leaves behind: the files of its folder, written while it runs and read for its reports."""
