"""Other people's apps on simfl's machines and clock."""
