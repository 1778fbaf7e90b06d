"""What weighs strings without a network: n-grams, infinite domains, automata and grammars."""
