"""Modules of examples/log_etl, which import each other like scripts of one folder."""

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
