"""The checks of `planner doctor`: each a small pure function over an `Observation`."""
