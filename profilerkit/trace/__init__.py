"""What one static pass found: operators, layers, and the tables made of them."""
