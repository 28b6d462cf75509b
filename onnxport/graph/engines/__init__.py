"""Which operators other engines take, by their own documentation: what can be said of a file without running it there."""
