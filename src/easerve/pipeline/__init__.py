"""Moves requests through encode, prefill and decode. asyncio only; time is the running loop's clock."""
