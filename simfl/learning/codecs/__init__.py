"""Value codecs: the values that a receiver decodes from a message."""
