"""Pictures from values, one function each, in the style of `style`."""
