"""One-line faults in the package, each with the test that must notice it."""
