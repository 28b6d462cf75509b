"""What a file may not do, checked before its framework reads it: a file a format, and what several of them share."""
