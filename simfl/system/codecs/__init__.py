"""Codecs: how many bytes of a message cross the link."""
