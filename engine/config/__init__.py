"""Defines the settings of a run, and the declarations that other settings classes use."""

from engine.config.config import SETTINGS, Config, contradictions, unknown_key
from engine.config.setting import Setting, SettingFault, setting, settings_of
from engine.config.storm_keys import SETTING_OF_STORM_KEY

__all__ = [
    "SETTINGS",
    "SETTING_OF_STORM_KEY",
    "Config",
    "Setting",
    "SettingFault",
    "contradictions",
    "setting",
    "settings_of",
    "unknown_key",
]
