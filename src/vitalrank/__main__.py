"""``python -m vitalrank``, and the command itself."""

import sys


def main() -> None:
    """Run the command line; a Ctrl-C while it still loads is told in one line too."""
    try:
        from vitalrank.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit("error: interrupted.")


if __name__ == "__main__":
    main()
