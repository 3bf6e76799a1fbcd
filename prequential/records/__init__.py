"""The schema of each record, its reader and its writer."""
