"""What runs every night, what of it was measured, and which commit made a number worse."""
