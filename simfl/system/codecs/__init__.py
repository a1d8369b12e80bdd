"""Codecs: the size of messages. Their effect on values is in `learning/codecs`."""
