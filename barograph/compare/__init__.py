"""Is B better than A? One experiment becomes another one, whose variants are two codes side by side in every block."""
