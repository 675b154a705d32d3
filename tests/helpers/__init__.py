"""What several tests share; import it as `tests.helpers.…`, never from a conftest."""
