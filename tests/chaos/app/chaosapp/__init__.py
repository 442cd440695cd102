"""Clients that misbehave as told, and a server that writes down what it sees."""
