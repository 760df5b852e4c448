"""A server's workers as Ray has them: started, watched, replaced; and their other end."""
