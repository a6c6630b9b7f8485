"""`python -m spark_bridge`: see `spark_bridge.cli`."""

from spark_bridge.cli.main import main

if __name__ == "__main__":
    main()
