"""The static pass: operators, layers and live bytes, on shapes alone wherever torch can."""
