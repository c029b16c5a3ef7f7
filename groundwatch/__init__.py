"""The one name of ours that no app has a module of: the command line starts here."""
