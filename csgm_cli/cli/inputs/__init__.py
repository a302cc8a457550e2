"""From a request to the model objects that the mathematics takes."""
