"""The parts of the client that wait: for a decision, for a person, for the end of an agent."""
