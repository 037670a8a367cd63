"""What the product's own check of each round costs."""
