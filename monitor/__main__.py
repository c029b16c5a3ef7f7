"""``python -m monitor`` is ``groundwatch``."""

from groundwatch.__main__ import main

main()
