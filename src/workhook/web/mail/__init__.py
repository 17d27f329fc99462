"""E-mail: the letters that people get, and the page that ends a kind of them."""
