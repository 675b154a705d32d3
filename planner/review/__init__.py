"""How predictions, measurements and wishes compare."""
