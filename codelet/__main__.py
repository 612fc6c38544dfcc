"""`python -m codelet`."""

from codelet.cli import main

if __name__ == "__main__":
    main()
