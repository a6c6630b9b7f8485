"""`python -m engine`: the same as the command `stormcell`."""

from engine.cli.main import main

if __name__ == "__main__":
    main()
