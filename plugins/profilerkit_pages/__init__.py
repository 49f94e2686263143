"""Reports as pages of HTML and as figures."""
