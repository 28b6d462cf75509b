"""Which operators other engines take, by their own documentation: what is known of a file without running it there."""
