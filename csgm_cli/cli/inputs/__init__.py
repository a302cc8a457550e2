"""Turn a request into the model objects that jobs take."""
