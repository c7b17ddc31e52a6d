"""Campaigns: sets of independent runs, here or on other machines, whose finished runs stay."""
