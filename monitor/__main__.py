"""``python -m monitor`` is ``groundwatch``."""

from monitor.cli import main

main()
