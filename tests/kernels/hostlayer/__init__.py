"""The host layer's own tests: planted faults, arithmetic, API limits."""
