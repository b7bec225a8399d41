"""Pipeline: the way of a question, from words to a grounded answer."""
