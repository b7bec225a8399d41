"""`python -m ragq` is `ragq`."""

import sys


def main() -> None:
    """The command line, from its first import on: Ctrl-C during the imports is exit 130 as well."""
    try:
        from ragq.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
