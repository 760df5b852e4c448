"""One engine on several machines: what is computed where, and how the parts come together. It knows no Ray."""
