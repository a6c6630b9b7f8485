"""`python -m spark_bridge`: runs the command line."""

from spark_bridge.cli.main import main

if __name__ == "__main__":
    main()
