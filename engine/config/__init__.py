"""The settings of a run."""

from engine.config.config import SETTINGS, Config, contradictions, unknown_key
from engine.config.setting import Setting, SettingFault

__all__ = ["SETTINGS", "Config", "Setting", "SettingFault", "contradictions", "unknown_key"]
