"""Run the command `stormcell` by `python -m engine`."""

from engine.cli.main import main

if __name__ == "__main__":
    main()
