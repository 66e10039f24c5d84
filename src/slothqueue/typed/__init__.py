"""Typed JSON: values become JSON by the annotations of a function, and the same type again."""
