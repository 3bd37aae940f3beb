"""Tables and progress for people, a module for each thing that is shown."""
