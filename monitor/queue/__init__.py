"""Step 2 of 7 · queue: hold samples in Redis until a worker takes them."""
