"""What `calibrate` measures, one file a thing."""
