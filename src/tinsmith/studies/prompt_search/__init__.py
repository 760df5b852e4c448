"""The prompt as what is searched: lines that are changed, and kept only where fresh questions say so."""
