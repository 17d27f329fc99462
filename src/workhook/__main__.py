"""Entry point of `python -m workhook`, the `workhook` command."""

from workhook.cli import main

if __name__ == "__main__":
    main()
