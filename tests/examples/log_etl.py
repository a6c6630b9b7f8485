"""The modules of examples/log_etl, which find each other as scripts of one folder do."""

import sys

from tests.project.sources import ROOT

sys.path.append(str(ROOT / "examples" / "log_etl"))

import access_log
import plain
import report
import tables
import topology
import traffic

__all__ = ["access_log", "plain", "report", "tables", "topology", "traffic"]
