"""The prompt as a parameter: a document of lines that is edited, and kept only where fresh questions say so."""
