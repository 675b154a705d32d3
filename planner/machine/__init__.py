"""What the hardware is: places, links, and what was measured of them."""
