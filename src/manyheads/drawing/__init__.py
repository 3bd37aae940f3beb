"""Pictures from rows: every module draws one, from stored numbers alone, in the look of `style`."""
