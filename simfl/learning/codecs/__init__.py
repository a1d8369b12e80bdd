"""Codecs: what the receiver of a message has of the values that were sent."""
