"""Tables, charts and pages that show results, and the comparison of two results."""
