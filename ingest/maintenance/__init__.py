"""What tables need beside their changes: files put in order, old versions removed."""
