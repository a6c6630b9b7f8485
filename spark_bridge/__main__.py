"""`python -m spark_bridge`: pipelines behind hand-over folders."""

from spark_bridge.cli.main import main

if __name__ == "__main__":
    main()
