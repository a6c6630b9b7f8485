"""Run the command line by `python -m spark_bridge`."""

from spark_bridge.cli.main import main

if __name__ == "__main__":
    main()
