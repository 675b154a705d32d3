"""What programs call: tensors and buffers moved by a pool that stays from one call to the next."""
