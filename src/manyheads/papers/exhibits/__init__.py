"""The figures, tables and claims of the capacity paper, a module each."""
