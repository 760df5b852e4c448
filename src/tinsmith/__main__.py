"""Makes `python -m tinsmith` the command line."""

from tinsmith.cli import main

if __name__ == "__main__":
    main()
