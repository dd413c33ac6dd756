"""Time series: tables, windows, and the model that forecasts them."""
