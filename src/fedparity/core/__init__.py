"""What a round is made of: nouns, verbs, the ledger, the gate, the coordinator and the loop."""
