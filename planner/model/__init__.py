"""What will happen: pure functions from a plan and a machine to a prediction."""
