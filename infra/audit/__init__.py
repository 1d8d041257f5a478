"""Everything billable that carries our tag, in every cloud, held against the ledger. Needs no state or run folder."""
