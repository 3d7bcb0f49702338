"""How `ppojob-train` and `ppojob-stage` end."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_DUPLICATE, EXIT_LOCKED = 0, 1, 2, 3, 4
