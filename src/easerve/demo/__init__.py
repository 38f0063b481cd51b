"""`easerve demo`: questions about pictures the built-in model has never seen, checked, with the time of each stage."""
