"""`python -m ragq` is `ragq`."""

from ragq.cli import main

if __name__ == "__main__":
    main()
