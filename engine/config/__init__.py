"""The settings of a run."""

from engine.config.config import SETTINGS, Config, contradictions, unknown_key
from engine.config.setting import Setting, SettingFault, setting, settings_of

__all__ = ["SETTINGS", "Config", "Setting", "SettingFault", "contradictions", "setting", "settings_of", "unknown_key"]
