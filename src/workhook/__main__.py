"""`python -m workhook`: the command `workhook`."""

from workhook.cli import main

if __name__ == "__main__":
    main()
