"""The HTML report and the style of figures. Nothing here computes results; it only shows them."""
