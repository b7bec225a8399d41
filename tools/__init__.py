"""Tools: what the structured record and the monographs know by themselves."""
