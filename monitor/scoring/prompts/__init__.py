"""The prompts, one file a version; a changed prompt is a new file, because scores change."""

from importlib import resources


def load_prompt(name: str) -> str:
    """Read the prompt *name*, such as ``judge.v1``."""
    return resources.files("monitor.scoring.prompts").joinpath(f"{name}.md").read_text("utf-8")
