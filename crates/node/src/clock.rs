//! Clocks: the wall, the wall times a factor, and one that jumps.
