"""Codecs: how many bytes of a message cross the link. What they do to values: `learning/codecs`."""
