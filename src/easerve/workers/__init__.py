"""Worker processes: what they are told, what they answer, how they are started, watched and stopped."""
