"""Modules that an export copies out; nothing in this package imports them."""
