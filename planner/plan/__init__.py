"""What people write: plans, read from YAML into typed values."""
