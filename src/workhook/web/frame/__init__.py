"""What every page is made with: layout, texts, assets, forms, and who looks at it."""
