"""What is killed or damaged while a rollback is under way, and what comes of it, on the real cluster."""
