"""`easerve bench`: load on any OpenAI-compatible server, and what its users would have felt."""
