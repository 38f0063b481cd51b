"""How long stages take: from measured kernel tables, a roofline, or a profile of the machine at hand."""
