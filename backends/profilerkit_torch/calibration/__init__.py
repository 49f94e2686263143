"""The measurements of a device that predictions of times on it need; loaded only for them."""
