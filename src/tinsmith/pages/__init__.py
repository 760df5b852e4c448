"""F4: kit of a page: document, section, table, figure, palette, one template, one style sheet."""
