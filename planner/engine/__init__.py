"""What does happen: schedules carried out on real files, memory and GPUs, and measured."""
