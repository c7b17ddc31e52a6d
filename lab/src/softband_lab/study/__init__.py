"""A study from its definition to its page: `plan`, `run`, `evaluate`, `render`."""
