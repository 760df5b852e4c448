"""cit-HepTh: the citations among hep-th papers of 1992 to 2003, fetched from SNAP and written as papers and edges."""
