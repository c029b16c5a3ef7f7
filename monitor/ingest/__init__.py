"""Receivers for apps that already tell somebody: they sample through a hook as the app would."""
