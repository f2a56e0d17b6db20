"""How a job begins: facts gathered, a decision, what is repaired, an old lake brought over."""
