"""Parameters that ship, one TOML file a preset; `preset = "name"` in the metrics file takes one."""
