"""The rules of claims: each judges a published number or statement by the runs of a study."""
