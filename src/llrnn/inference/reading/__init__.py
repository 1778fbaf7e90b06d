"""Reading print: what a recogniser of characters thought possible, a learnt channel, and a search with any model."""
